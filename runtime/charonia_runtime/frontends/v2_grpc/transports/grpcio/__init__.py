"""
gRPC by `grpc.aio`: the reference that our own transport is held against. The only package that imports `grpc`.

`listener` makes grpc's server object, `bridge` turns its coroutines into the callbacks of `v2_grpc.calls`.
"""

from charonia_runtime.frontends.v2_grpc.transports.grpcio.transport import Transport

__all__ = ["Transport"]
