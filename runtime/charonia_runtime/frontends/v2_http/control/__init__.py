"""
The control routes, a FastAPI application: health, metadata, statistics, repository, settings, shared memory.

One module for each group of routes; `application` puts them together. Nothing here is fast, all of it is plain.
"""
