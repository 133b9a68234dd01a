"""
REST v2 on port 8000: HTTP/1.1 on httptools, inference taken first and without ASGI, control routes by FastAPI.

Here are the listener, its flags, connections and their limits, compression, routes and statuses. JSON is the business
of `protocols`. A connection carries one exchange at a time: an inference pushes its answer straight into the
connection, with no task; everything else is an ASGI application in a task of its own.
"""

from charonia_runtime.frontends.v2_http.frontend import Frontend
from charonia_runtime.frontends.v2_http.options import Options

__all__ = ["Frontend", "Options"]
