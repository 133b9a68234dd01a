"""`ModelInferRequest` bytes → requests, with a memory: clients repeat all but their tensors, byte for byte."""

from dataclasses import dataclass
from typing import Final, TypeAlias, Union

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.request import InferenceRequest, ParameterValue, RequestedOutput, ResponseSink
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.protocols.v2_proto.infer import InferMessage, MessageBytes, Remember
from charonia_runtime.protocols.v2_proto.layout import Layout, find_layout, read_front

_FRONT_BYTES: Final = 1024
"""What may stand before the first tensor of a message that is remembered."""
_REMEMBERED: Final = 1024


Message: TypeAlias = Union[InferMessage, "KnownMessage"]
"""An inference request's message, from which the request is made."""


class InferDecoder:
    """
    Decodes inference requests. What a message says before its tensors, its id aside, is read once.

    A message is known by its model's name and version and by the length of what follows its id; then it is compared
    byte for byte, tensors excepted, with the one that was remembered.
    """

    __slots__ = ("_known", "_newest_rules")

    def __init__(self, *, newest_rules: bool = True) -> None:
        """With `newest_rules` an output may be requested once."""
        self._newest_rules = newest_rules
        self._known: dict[tuple[bytes, int], _Template] = {}

    def read(self, data: bytes | memoryview) -> "Message | SlowMessage":
        """The message in `data`, or how to read it in a thread. Raises InternalError when the bytes are none."""
        front = data if isinstance(data, bytes) else bytes(data[:_FRONT_BYTES])
        found = read_front(front)
        if found is None:
            return self._read_whole(data, None)
        model_end, id_start, rest = found
        key = front[:model_end], len(data) - rest
        template = self._known.get(key)
        if template is not None and template.fits(front, data, rest):
            try:
                return KnownMessage(template, data, front[id_start:rest].decode(), rest)
            except UnicodeDecodeError:
                return self._read_whole(data, None)
        return self._read_whole(data, self._remember)

    def _read_whole(self, data: bytes | memoryview, remember: Remember | None) -> "InferMessage | SlowMessage":
        message_bytes = MessageBytes(data)
        if message_bytes.reads_slowly:
            return SlowMessage(message_bytes, newest_rules=self._newest_rules)
        return InferMessage(message_bytes, remember, newest_rules=self._newest_rules)

    def _remember(self, data: bytes | memoryview, request: InferenceRequest, *, wants_empty_final: bool) -> None:
        """Keep what was read of a message, if it is of the usual form and others are likely to be like it."""
        if request.sequence is not None:
            return
        layout = find_layout(data, _FRONT_BYTES)
        if layout is None:
            return
        template = _template(layout, request, wants_empty_final=wants_empty_final)
        if template is None:
            return
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[layout.model, len(data) - layout.rest] = template


class SlowMessage:
    """A message whose reading takes long. `read` may be called in any thread, once; it raises InferenceError."""

    __slots__ = ("_bytes", "_newest_rules")

    def __init__(self, message_bytes: MessageBytes, *, newest_rules: bool) -> None:
        self._bytes = message_bytes
        self._newest_rules = newest_rules

    def read(self) -> InferMessage:
        return InferMessage(self._bytes, newest_rules=self._newest_rules)


@dataclass(slots=True)
class _Input:
    """A tensor of a remembered message; `data` is where it lies if it is not in the message."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    start: int
    end: int
    data: SharedMemoryRef | None


@dataclass(slots=True)
class _Template:
    """A remembered message. Places are counted from the end of its id."""

    model_name: str
    version_text: str
    head: bytes
    """From the id to the first tensor's bytes."""
    prefixes: list[tuple[int, int, bytes]]
    """Start, end and bytes of what stands before each further tensor."""
    inputs: list[_Input]
    outputs: list[RequestedOutput]
    parameters: dict[str, ParameterValue]
    priority: int
    timeout_us: int
    wants_empty_final: bool

    def fits(self, front: bytes, data: bytes | memoryview, rest: int) -> bool:
        """Whether a message, whose id ends at `rest`, differs in nothing but its tensors."""
        if not front.startswith(self.head, rest):
            return False
        return all(data[rest + start : rest + end] == prefix for start, end, prefix in self.prefixes)


class KnownMessage:
    """See `InferMessage`: one that is like an earlier one."""

    __slots__ = ("_data", "_rest", "_template", "id", "model_name", "version_text", "wants_empty_final")

    is_slow = False
    byte_size = 0

    def __init__(self, template: _Template, data: bytes | memoryview, identifier: str, rest: int) -> None:
        self._template = template
        self._data = memoryview(data)
        self._rest = rest
        self.model_name = template.model_name
        self.version_text = template.version_text
        self.id = identifier
        self.wants_empty_final = template.wants_empty_final

    def request(self, version: int, sink: ResponseSink) -> InferenceRequest:
        """The request to `version` of the model, answered through `sink`."""
        template, data, rest = self._template, self._data, self._rest
        inputs = {}
        for tensor in template.inputs:
            name = tensor.name
            inputs[name] = Tensor(
                name, tensor.datatype, tensor.shape, tensor.data or data[rest + tensor.start : rest + tensor.end]
            )
        return InferenceRequest(
            self.model_name,
            inputs,
            sink,
            version,
            self.id,
            [RequestedOutput(output.name, output.classes, output.shared_memory) for output in template.outputs],
            template.parameters.copy(),
            None,
            template.priority,
            template.timeout_us,
        )


def _template(layout: Layout, request: InferenceRequest, *, wants_empty_final: bool) -> _Template | None:
    """What `request`, read of a message with this layout, has in common with its likes; None for written numbers."""
    tensors = iter(layout.tensors)
    inputs = []
    for tensor in request.inputs.values():
        if isinstance(tensor.data, SharedMemoryRef):
            inputs.append(_Input(tensor.name, tensor.datatype, tensor.shape, 0, 0, tensor.data))
            continue
        place = next(tensors, None)
        if place is None:
            return None
        inputs.append(_Input(tensor.name, tensor.datatype, tensor.shape, *place, None))
    return _Template(
        request.model_name,
        layout.version_text,
        layout.head,
        layout.prefixes,
        inputs,
        request.outputs,
        request.parameters.copy(),
        request.priority,
        request.timeout_us,
        wants_empty_final,
    )
