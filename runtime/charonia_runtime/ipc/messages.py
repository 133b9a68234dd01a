"""What requests and responses look like in frames: one record each, its variable parts, then its tensors."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

from charonia_runtime.core.errors import ErrorCode
from charonia_runtime.core.request import ParameterValue
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.core.texts import utf8_bytes, utf8_text
from charonia_runtime.ipc.frames import Frame
from charonia_runtime.ipc.packing import LayoutCodec, LayoutMemory, LayoutReader, Packer, TensorPlace, View

_REQUEST = struct.Struct("<HHHHIB")
"""Inputs, flags, length of the id, of the output names, of the rest; whether the numbers of `_NUMBERS` follow."""
_NUMBERS = struct.Struct("<QQ")
"""Timeout in µs, correlation id; among the data."""
_RESPONSE = struct.Struct("<BBHII")
"""Status, error code, outputs, length of the message, of the parameters."""
HELD_BACK = 0x8000
"""Among the flags of a request: its client may read slowly, responses wait for it. Models do not see this flag."""
TIMES = struct.Struct("<QQ")
"""Monotonic clock when the model began and when it returned, in ns: the last bytes of an answer."""
_PLAIN_RESPONSES = tuple(_RESPONSE.pack(0, 0, outputs, 0, 0) for outputs in range(64))
_CODES = tuple(ErrorCode)
_CODE_NUMBERS = {code.value: number for number, code in enumerate(_CODES)}
_SEPARATOR = "\0"


@dataclass(slots=True)
class RequestRecord:
    """
    A request as it crosses the channel.

    `flags` are Triton's: 1 starts a sequence, 2 ends one. `rest` is what few requests have: `parameters`,
    `correlation_id` where it is a string, and what calls of other models need. `trace` is there when the request is
    recorded: to the child what it passes on, or None; from the child the batch and the index of the request that the
    call is made for.
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
    raw_id = utf8_text(request.id).encode() if request.id else b""
    names = _encode_names(request.output_names) if request.output_names else b""
    if len(raw_id) > 0xFFFF or len(names) > 0xFFFF:
        rest = {**rest, "id": request.id, "output_names": request.output_names}
        raw_id = names = b""
    raw_rest = json.dumps(rest).encode() if rest else b""
    numbers = request.timeout_us or correlation_id
    inputs = request.inputs
    packer.add(
        _REQUEST.pack(len(inputs), request.flags, len(raw_id), len(names), len(raw_rest), 1 if numbers else 0) + names
    )
    if raw_id:
        packer.add_data(raw_id)
    if raw_rest:
        packer.add_data(raw_rest)
    if numbers:
        packer.add_data(_NUMBERS.pack(request.timeout_us, correlation_id & 0xFFFFFFFFFFFFFFFF))
    if backend_shapes:
        for tensor in inputs:
            change = backend_shapes.get(tensor.name)
            packer.add_tensor(tensor, change(tensor.shape) if change else None)
    else:
        for tensor in inputs:
            packer.add_tensor(tensor)


@lru_cache
def _encode_names(names: tuple[str, ...]) -> bytes:
    return _SEPARATOR.join(names).encode()


class RequestLayout(NamedTuple):
    """What requests of one kind have in common, and where in the frame's body the rest of each lies."""

    inputs: tuple[TensorPlace, ...]
    output_names: tuple[str, ...]
    flags: int
    id: slice | None
    rest: slice | None
    numbers: slice | None

    def read(self, body: memoryview) -> RequestRecord:
        """All of a request but its inputs."""
        request_id, output_names = bytes(body[self.id]).decode() if self.id else "", self.output_names
        timeout_us, number = _NUMBERS.unpack(body[self.numbers]) if self.numbers else (0, 0)
        rest: dict[str, Any] = json.loads(bytes(body[self.rest])) if self.rest else {}
        correlation_id: int | str = number
        if rest:
            correlation_id = rest.get("correlation_id", number)
            request_id = rest.get("id", request_id)
            output_names = tuple(rest.get("output_names", output_names))
        return RequestRecord(request_id, [], output_names, self.flags & ~HELD_BACK, timeout_us, correlation_id, rest)


def parse_request(reader: LayoutReader) -> RequestLayout:
    """Read what `pack_request` added to the records."""
    inputs, flags, id_length, names_length, rest_length, numbers = reader.unpack(_REQUEST)
    names = tuple(reader.take(names_length).decode().split(_SEPARATOR)) if names_length else ()
    id_place = reader.data(id_length) if id_length else None
    rest_place = reader.data(rest_length) if rest_length else None
    numbers_place = reader.data(_NUMBERS.size) if numbers else None
    places = tuple([reader.tensor() for _ in range(inputs)])
    return RequestLayout(places, names, flags, id_place, rest_place, numbers_place)


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


def pack_outputs(packer: Packer, count: int) -> None:
    """Add a response to a frame that has nothing but outputs; `count` tensors are to follow."""
    packer.add(_PLAIN_RESPONSES[count] if count < len(_PLAIN_RESPONSES) else _RESPONSE.pack(0, 0, count, 0, 0))


def pack_response(packer: Packer, response: ResponseRecord) -> None:
    """Add a response to a frame."""
    raw_message = utf8_bytes(response.message) if response.message else b""
    raw_parameters = json.dumps(response.parameters).encode() if response.parameters else b""
    code = _CODE_NUMBERS[response.code.value]
    outputs = response.outputs
    packer.add(_RESPONSE.pack(response.status, code, len(outputs), len(raw_message), len(raw_parameters)))
    if raw_message:
        packer.add_data(raw_message)
    if raw_parameters:
        packer.add_data(raw_parameters)
    for tensor in outputs:
        packer.add_tensor(tensor)


class ResponseLayout(NamedTuple):
    """What responses of one kind have in common, and where in the frame's body the rest of each lies."""

    outputs: tuple[TensorPlace, ...]
    status: int
    code: ErrorCode
    message: slice | None
    parameters: slice | None

    def read(self, body: memoryview, view: View) -> ResponseRecord:
        message = bytes(body[self.message]).decode("utf-8", "replace") if self.message else ""
        parameters = json.loads(bytes(body[self.parameters])) if self.parameters else {}
        outputs = [place.read(body, view) for place in self.outputs]
        return ResponseRecord(self.status, outputs, message, self.code, parameters)


def parse_response(reader: LayoutReader) -> ResponseLayout:
    """Read what `pack_response` added to the records."""
    status, code, outputs, message_length, parameters_length = reader.unpack(_RESPONSE)
    message = reader.data(message_length) if message_length else None
    parameters = reader.data(parameters_length) if parameters_length else None
    places = tuple([reader.tensor() for _ in range(outputs)])
    return ResponseLayout(places, status, _CODES[code], message, parameters)


class MessageReader:
    """
    Reads the requests and responses in the frames of one channel.

    `check` is called with each layout of a response that is not remembered. What it raises, the reader raises.
    """

    __slots__ = ("_requests", "_responses", "check")

    def __init__(self, layouts: LayoutCodec) -> None:
        self._requests = LayoutMemory(layouts, parse_request)
        self._responses = LayoutMemory(layouts, self._parse_response)
        self.check: Callable[[ResponseLayout], None] | None = None

    def request_layouts(self, frame: Frame, count: int) -> list[RequestLayout]:
        return self._requests.find(frame, count)

    def response_layouts(self, frame: Frame, count: int) -> list[ResponseLayout]:
        return self._responses.find(frame, count)

    def _parse_response(self, reader: LayoutReader) -> ResponseLayout:
        layout = parse_response(reader)
        if self.check is not None:
            self.check(layout)
        return layout

    def request(self, frame: Frame, view: View) -> RequestRecord:
        """The only request in a frame."""
        (layout,) = self._requests.find(frame, 1)
        record = layout.read(frame.body)
        record.inputs = [place.read(frame.body, view) for place in layout.inputs]
        return record

    def response(self, frame: Frame, view: View) -> ResponseRecord:
        """The only response in a frame."""
        (layout,) = self._responses.find(frame, 1)
        return layout.read(frame.body, view)
