"""
gRPC v2 messages ⇄ bytes: what the codecs of this package share.

The messages themselves (`inference.*`) come from the modules that `tritonclient` carries. `decoder` and `infer` decode
inference requests, `answers` encodes their answers, `documents` what describes models, `repository`, `memory` and
`settings` the control calls.
"""

from typing import Any

from google.protobuf.message import DecodeError

from charonia_runtime.core.errors import InternalError
from charonia_runtime.protocols.v2_proto.limits import check_fields

MAX_MESSAGE_BYTES = 2**31 - 1
"""The largest message that protobuf allows, and Triton's limit both ways."""


def parse(message_class: Any, data: bytes | memoryview) -> Any:
    """
    A message out of its bytes. Raises InternalError with Triton's text when they are no such message.

    Raises InvalidArgumentError for one with too many fields (`limits`).
    """
    check_fields(message_class.DESCRIPTOR, data)
    try:
        return message_class.FromString(data)
    except DecodeError as error:
        raise InternalError("Unable to parse request") from error


def kind_of(parameter: Any) -> str | None:
    """Which field of a parameter's `oneof` is set."""
    kind: str | None = parameter.WhichOneof("parameter_choice")
    return kind
