"""
gRPC on our own HTTP/2 (`wires.http2`): what the gRPC specification adds to it.

Here are the heads of calls, messages in their frames and their compression, deadlines, statuses in trailers. A unary
call needs no task, future or thread: its answer leaves in the call chain that its request or its model's answer began.
"""

from charonia_runtime.frontends.v2_grpc.transports.http2.transport import Transport

__all__ = ["Transport"]
