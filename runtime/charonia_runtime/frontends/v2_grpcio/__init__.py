"""
gRPC v2 on port 8001, served by grpc.aio: `inference.GRPCInferenceService` and `grpc.health.v1.Health`.

Here are the listener, its flags, the ways of calls, deadlines, cancellation and streams. Messages are the business of
`protocols.v2_proto`: handlers get and give bytes. The only package that imports `grpc`.
"""

from charonia_runtime.frontends.v2_grpcio.frontend import Frontend
from charonia_runtime.frontends.v2_grpcio.options import Options

__all__ = ["Frontend", "Options"]
