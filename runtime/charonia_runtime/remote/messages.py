"""
Requests and responses in frames, with all that frontends say and hear: `ipc.messages`, and what models never see.

Most requests are told by records that the receiver knows already; `rest`, which is JSON, has what few of them have.
"""

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from charonia_runtime.core.errors import ERROR_CLASSES
from charonia_runtime.core.request import (
    InferenceRequest,
    InferenceResponse,
    RequestedOutput,
    ResponseSink,
    SequenceId,
)
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.core.texts import utf8_text
from charonia_runtime.ipc.frames import Frame
from charonia_runtime.ipc.messages import (
    HELD_BACK,
    RequestLayout,
    RequestRecord,
    ResponseLayout,
    ResponseRecord,
    Status,
    pack_outputs,
    pack_request,
    pack_response,
    parse_request,
    parse_response,
)
from charonia_runtime.ipc.packing import LayoutCodec, LayoutMemory, LayoutReader, Packer
from charonia_runtime.ipc.segments import SegmentTable
from charonia_runtime.remote.frames import FAILED, FINAL, FLAG_ONLY, REFUSED

_MODEL: Final = struct.Struct("<qI")
"""Version, length of the name, which follows."""
_START, _END, _IN_SEQUENCE = 1, 2, 4
_NOTHING: Final = memoryview(b"")
_SEPARATOR: Final = "\0"


# --- requests ---


def add_request(packer: Packer, request: InferenceRequest, trace: Mapping[str, Any] | None) -> None:
    """
    Write a request, and what its trace has to tell.

    Raises InternalError when there is no memory for its tensors, struct.error or UnicodeError for what no frame holds.
    """
    packer.add(_model(request.model_name, request.model_version))
    rest: dict[str, Any] = {}
    if request.parameters:
        rest["parameters"] = request.parameters
    if request.priority:
        rest["priority"] = request.priority
    if trace is not None:
        rest["trace"] = trace
    inputs = list(request.inputs.values())
    places = _take_places(inputs)
    if places:
        rest["places"] = places
    names = tuple([output.name for output in request.outputs])
    if names and any(output.classes or output.shared_memory or _SEPARATOR in output.name for output in request.outputs):
        rest["outputs"] = [_output_document(output) for output in request.outputs]
        names = ()
    flags = 0 if request.flow is None else HELD_BACK
    correlation_id: int | str = 0
    sequence = request.sequence
    if sequence is not None:
        correlation_id = sequence.correlation_id
        flags |= _IN_SEQUENCE | (_START if sequence.start else 0) | (_END if sequence.end else 0)
    record = RequestRecord(request.id, inputs, names, flags, request.timeout_us, correlation_id, rest)
    pack_request(packer, record)


class _RequestLayout(NamedTuple):
    """What requests of one kind have in common."""

    model: str
    version: int
    layout: RequestLayout
    is_plain: bool
    """Whether there is nothing to say of them but their inputs."""


class ReceivedRequest(NamedTuple):
    """A request as it arrived."""

    request: InferenceRequest
    is_held_back: bool
    """Whether its responses wait for ROOM."""
    trace: Mapping[str, Any] | None
    """What its trace has to tell; None where nobody wants one."""


class RequestReader:
    """Reads the requests of one link."""

    __slots__ = ("_memory", "_segments")

    def __init__(self, layouts: LayoutCodec, segments: SegmentTable) -> None:
        self._memory = LayoutMemory(layouts, _parse_request)
        self._segments = segments

    def read(self, frame: Frame, sink: ResponseSink) -> ReceivedRequest:
        """The request in a frame, which is to be answered to `sink`."""
        (found,) = self._memory.find(frame, 1)
        layout, body = found.layout, frame.body
        borrow = self._segments.borrow
        inputs = {place.name: place.read(body, borrow) for place in layout.inputs}
        if found.is_plain:
            return ReceivedRequest(InferenceRequest(found.model, inputs, sink, found.version), False, None)
        record = layout.read(body)
        request = InferenceRequest(found.model, inputs, sink, found.version, record.id, timeout_us=record.timeout_us)
        if record.output_names:
            request.outputs = [RequestedOutput(name) for name in record.output_names]
        if record.flags & _IN_SEQUENCE:
            request.sequence = SequenceId(record.correlation_id, bool(record.flags & _START), bool(record.flags & _END))
        rest = record.rest
        if rest:
            _add_rest(request, rest)
        return ReceivedRequest(request, bool(layout.flags & HELD_BACK), rest.get("trace"))


def _parse_request(reader: LayoutReader) -> _RequestLayout:
    version, name = _read_model(reader)
    layout = parse_request(reader)
    is_plain = not (layout.output_names or layout.flags or layout.id or layout.rest or layout.numbers)
    return _RequestLayout(name, version, layout, is_plain)


def _add_rest(request: InferenceRequest, rest: Mapping[str, Any]) -> None:
    request.parameters = rest.get("parameters", {})
    request.priority = rest.get("priority", 0)
    if "outputs" in rest:
        request.outputs = [
            RequestedOutput(name, classes, SharedMemoryRef(*place) if place else None)
            for name, classes, place in rest["outputs"]
        ]
    if "places" in rest:
        _put_places(list(request.inputs.values()), rest["places"])


def _output_document(output: RequestedOutput) -> tuple[str, int, Any]:
    return output.name, output.classes, _place_document(output.shared_memory) if output.shared_memory else None


# --- responses ---


def add_response(packer: Packer, response: InferenceResponse, request_id: str) -> int:
    """
    Write a response to a request; returns the flags of its frame.

    Raises InternalError when there is no memory for its tensors.
    """
    packer.add(_model(response.model_name, response.model_version))
    flags = (
        (FINAL if response.final else 0)
        | (FLAG_ONLY if response.flag_only else 0)
        | (REFUSED if response.refused else 0)
        | (FAILED if response.failed else 0)
    )
    outputs, error = response.outputs, response.error
    rest: dict[str, Any] = {}
    if response.parameters:
        rest["parameters"] = response.parameters
    if response.id != request_id:
        rest["id"] = response.id
    if any(type(tensor.data) is SharedMemoryRef for tensor in outputs):
        outputs = list(outputs)
        rest["places"] = _take_places(outputs)
    if error is not None:
        pack_response(packer, ResponseRecord(Status.ERROR, (), error.message, error.code, rest))
    elif rest:
        pack_response(packer, ResponseRecord(Status.OUTPUTS, outputs, parameters=rest))
    else:
        pack_outputs(packer, len(outputs))
        for tensor in outputs:
            packer.add_tensor(tensor)
    return flags


class _ResponseLayout(NamedTuple):
    """What responses of one kind have in common."""

    model: str
    version: int
    layout: ResponseLayout


class ResponseReader:
    """Reads the responses of one link."""

    __slots__ = ("_memory", "_segments")

    def __init__(self, layouts: LayoutCodec, segments: SegmentTable) -> None:
        self._memory = LayoutMemory(layouts, _parse_response)
        self._segments = segments

    def read(self, frame: Frame, request_id: str) -> InferenceResponse:
        """The response in a frame, to a request with this id. Its large tensors are given back when they are gone."""
        (found,) = self._memory.find(frame, 1)
        record = found.layout.read(frame.body, self._segments.borrow)
        rest: Any = record.parameters
        outputs, flags = list(record.outputs), frame.flags
        if "places" in rest:
            _put_places(outputs, rest["places"])
        error = ERROR_CLASSES[record.code](record.message) if record.status == Status.ERROR else None
        return InferenceResponse(
            found.model,
            found.version,
            rest.get("id", request_id),
            outputs,
            rest.get("parameters", {}),
            error,
            bool(flags & FINAL),
            bool(flags & FLAG_ONLY),
            bool(flags & FAILED),
            bool(flags & REFUSED),
        )


def _parse_response(reader: LayoutReader) -> _ResponseLayout:
    version, name = _read_model(reader)
    return _ResponseLayout(name, version, parse_response(reader))


# --- parts ---


@lru_cache(maxsize=1024)
def _model(name: str, version: int) -> bytes:
    raw = utf8_text(name).encode()
    return _MODEL.pack(version, len(raw)) + raw


def _read_model(reader: LayoutReader) -> tuple[int, str]:
    version, length = reader.unpack(_MODEL)
    return version, reader.take(length).decode()


_Places = list[tuple[int, tuple[str, int, int]]]


def _take_places(tensors: list[Tensor]) -> _Places:
    """Where those tensors lie that a client has in its own shared memory; here nothing is left of them but names."""
    places: _Places = []
    for index, tensor in enumerate(tensors):
        if isinstance(tensor.data, SharedMemoryRef):
            places.append((index, _place_document(tensor.data)))
            tensors[index] = Tensor(tensor.name, tensor.datatype, tensor.shape, _NOTHING)
    return places


def _put_places(tensors: list[Tensor], places: Iterable[tuple[int, tuple[str, int, int]]]) -> None:
    for index, place in places:
        tensors[index].data = SharedMemoryRef(*place)


def _place_document(place: SharedMemoryRef) -> tuple[str, int, int]:
    return place.region, place.byte_size, place.offset
