"""What requests and responses look like in frames: one record each, its variable parts, then its tensors."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from charonia_runtime.core.errors import ErrorCode
from charonia_runtime.core.request import ParameterValue
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.ipc.packing import Packer, Unpacker

_REQUEST = struct.Struct("<HHHHIQQ")
"""Inputs, flags, length of the id, of the output names, of the rest; timeout in µs, correlation id."""
_RESPONSE = struct.Struct("<BBHII")
"""Status, error code, outputs, length of the message, of the parameters."""
_CODES = tuple(ErrorCode)
_CODE_NUMBERS = {code.value: number for number, code in enumerate(_CODES)}
_SEPARATOR = "\0"


@dataclass(slots=True)
class RequestRecord:
    """
    A request as it crosses the channel.

    `flags` are Triton's: 1 starts a sequence, 2 ends one. `rest` is what few requests have: `parameters`,
    `correlation_id` where it is a string, `trace`, and what calls of other models need.
    """

    id: str = ""
    inputs: list[Tensor] = field(default_factory=list)
    output_names: tuple[str, ...] = ()
    flags: int = 0
    timeout_us: int = 0
    correlation_id: int | str = 0
    rest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> Mapping[str, ParameterValue]:
        found: Mapping[str, ParameterValue] = self.rest.get("parameters", {})
        return found


def pack_request(
    packer: Packer,
    request: RequestRecord,
    backend_shapes: Mapping[str, Callable[[tuple[int, ...]], tuple[int, ...]]] | None = None,
) -> None:
    """Add a request to a frame; inputs in `backend_shapes` get the shape that its function makes of theirs."""
    correlation_id, rest = request.correlation_id, request.rest
    if isinstance(correlation_id, str):
        rest = {**rest, "correlation_id": correlation_id}
        correlation_id = 0
    raw_id = request.id.encode()
    names = _SEPARATOR.join(request.output_names).encode()
    if len(raw_id) > 0xFFFF or len(names) > 0xFFFF:
        rest = {**rest, "id": request.id, "output_names": request.output_names}
        raw_id = names = b""
    raw_rest = json.dumps(rest).encode() if rest else b""
    packer.add(
        _REQUEST.pack(
            len(request.inputs), request.flags, len(raw_id), len(names), len(raw_rest), request.timeout_us,
            correlation_id & 0xFFFFFFFFFFFFFFFF,
        ),
        raw_id, names, raw_rest,
    )  # fmt: skip
    for tensor in request.inputs:
        change = backend_shapes.get(tensor.name) if backend_shapes else None
        packer.add_tensor(tensor, change(tensor.shape) if change else None)


def unpack_request(unpacker: Unpacker) -> RequestRecord:
    inputs, flags, id_length, names_length, rest_length, timeout_us, number = unpacker.unpack(_REQUEST)
    request_id = unpacker.take(id_length).decode() if id_length else ""
    output_names = tuple(unpacker.take(names_length).decode().split(_SEPARATOR)) if names_length else ()
    rest: dict[str, Any] = json.loads(unpacker.take(rest_length)) if rest_length else {}
    correlation_id: int | str = number
    if rest:
        correlation_id = rest.get("correlation_id", number)
        request_id = rest.get("id", request_id)
        output_names = tuple(rest.get("output_names", output_names))
    tensors = [unpacker.tensor() for _ in range(inputs)]
    return RequestRecord(request_id, tensors, output_names, flags, timeout_us, correlation_id, rest)


class Status(IntEnum):
    """What a response record stands for."""

    OUTPUTS = 0
    ERROR = 1
    NOTHING = 2
    """No response here: it was or will be sent on its own."""
    RESCHEDULE = 3


@dataclass(slots=True)
class ResponseRecord:
    """A response as it crosses the channel."""

    status: int = Status.OUTPUTS
    outputs: Sequence[Tensor] = ()
    message: str = ""
    code: ErrorCode = ErrorCode.INTERNAL
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)


def pack_response(packer: Packer, response: ResponseRecord) -> None:
    """Add a response to a frame."""
    raw_message = response.message.encode("utf-8", "surrogateescape") if response.message else b""
    raw_parameters = json.dumps(response.parameters).encode() if response.parameters else b""
    code = _CODE_NUMBERS[response.code.value]
    outputs = response.outputs
    lengths = len(outputs), len(raw_message), len(raw_parameters)
    packer.add(_RESPONSE.pack(response.status, code, *lengths), raw_message, raw_parameters)
    for tensor in outputs:
        packer.add_tensor(tensor)


def unpack_response(unpacker: Unpacker) -> ResponseRecord:
    status, code, outputs, message_length, parameters_length = unpacker.unpack(_RESPONSE)
    message = unpacker.take(message_length).decode("utf-8", "replace") if message_length else ""
    parameters = json.loads(unpacker.take(parameters_length)) if parameters_length else {}
    tensors = [unpacker.tensor() for _ in range(outputs)] if outputs else []
    return ResponseRecord(status, tensors, message, _CODES[code], parameters)
