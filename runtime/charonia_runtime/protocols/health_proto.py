"""
`grpc.health.v1` messages (`Check` only).

They are so small that they borrow messages of the same wire form: the request is one string field, ignored by Triton;
the response one enum. A descriptor of our own would clash with the `grpc_health` package of a client in the process.
"""

from google.protobuf.wrappers_pb2 import StringValue

from charonia_runtime.protocols.v2_proto import parse

SERVING = b"\x08\x01"
NOT_SERVING = b"\x08\x02"


def decode_check(data: bytes) -> None:
    """Any service name is accepted and none matters. Raises InternalError when the bytes are no request."""
    parse(StringValue, data)


def encode_check(*, ready: bool) -> bytes:
    return SERVING if ready else NOT_SERVING
