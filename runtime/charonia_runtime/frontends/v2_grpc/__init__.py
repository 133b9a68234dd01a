"""
gRPC v2 on port 8001: `inference.GRPCInferenceService` and `grpc.health.v1.Health`.

Here are the calls (inference, streams, control, health), who may make them, and the flags. How they travel is the
business of `transports`, behind the small protocol in `calls`; messages are that of `protocols.v2_proto`: calls get and
give bytes.
"""

from charonia_runtime.frontends.v2_grpc.frontend import Frontend
from charonia_runtime.frontends.v2_grpc.options import Options

__all__ = ["Frontend", "Options"]
