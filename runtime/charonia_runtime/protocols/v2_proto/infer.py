"""`ModelInferRequest` bytes → `InferenceRequest`."""

from collections.abc import Sequence
from typing import Any, Protocol

from tritonclient.grpc.service_pb2 import ModelInferRequest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, RequestedOutput, ResponseSink
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor, rank_mistake
from charonia_runtime.protocols.v2_proto import parse
from charonia_runtime.protocols.v2_proto.contents import read_contents
from charonia_runtime.protocols.v2_proto.limits import UNLIMITED_BYTES
from charonia_runtime.protocols.v2_proto.parameters import read_output, read_parameters, read_region
from charonia_runtime.protocols.v2_proto.wire import cut

_RawContents = Sequence[bytes | memoryview]
_RAW_CONTENTS_KEY = 0x3A
_CUT_FROM_BYTES = 8192
"""Messages at least this large have their raw tensors cut out: two copies less, for some microseconds of Python."""
_SLOW_FROM_BYTES = 1 << 20
_ENTRIES_AT_MOST = 16384
"""Tensors or parameters of one request. Above, reading them would keep other clients waiting."""


class Remember(Protocol):
    """Is told of a message that made a good request."""

    def __call__(self, data: bytes | memoryview, request: InferenceRequest, *, wants_empty_final: bool) -> None: ...


class MessageBytes:
    """The bytes of a `ModelInferRequest`, its raw tensors cut out where that pays."""

    __slots__ = ("contents", "data", "rest")

    def __init__(self, data: bytes | memoryview) -> None:
        pieces = cut(data, _RAW_CONTENTS_KEY) if len(data) >= _CUT_FROM_BYTES else None
        self.data = data
        self.rest: bytes | memoryview = data
        self.contents: _RawContents = ()
        if pieces is not None and pieces[1]:
            self.rest, self.contents = pieces

    @property
    def reads_slowly(self) -> bool:
        """Whether making an `InferMessage` of them may take more than some milliseconds."""
        return len(self.rest) > UNLIMITED_BYTES


class InferMessage:
    """
    A decoded `ModelInferRequest`. Raises InternalError when the bytes are none.

    `model_name`, `version_text` and `id` are as the client sent them; `request` looks at the rest.
    """

    __slots__ = (
        "_data", "_message", "_newest_rules", "_raw", "_remember", "byte_size", "id", "is_slow", "model_name",
        "version_text", "wants_empty_final",
    )  # fmt: skip

    def __init__(
        self, message_bytes: MessageBytes, remember: Remember | None = None, *, newest_rules: bool = True
    ) -> None:
        """With `newest_rules` an output may be requested once."""
        self._data = message_bytes.data
        self.byte_size = len(message_bytes.data)
        self._remember = remember
        self._newest_rules = newest_rules
        rest, contents = message_bytes.rest, message_bytes.contents
        message = self._message = parse(ModelInferRequest, rest)
        self._raw: _RawContents = contents or message.raw_input_contents
        self.model_name: str = message.model_name
        self.version_text: str = message.model_version
        self.id: str = message.id
        self.is_slow = len(rest) >= _SLOW_FROM_BYTES
        """Whether `request` may take milliseconds: tensors written as numbers."""
        self.wants_empty_final = False
        """Whether the client wants a decoupled model's final flag in a response of its own; set by `request`."""

    def request(self, version: int, sink: ResponseSink) -> InferenceRequest:
        """The request to `version` of the model, answered through `sink`. Raises InvalidArgumentError."""
        message = self._message
        request = InferenceRequest(self.model_name, {}, sink, version, self.id)
        if parameters := message.parameters:
            self._check_count("parameters", len(parameters))
            self.wants_empty_final = read_parameters(parameters, request)
        self._read_inputs(request)
        if outputs := message.outputs:
            self._check_count("outputs", len(outputs))
            found: dict[str, RequestedOutput] = {}
            for output in outputs:
                if self._newest_rules and output.name in found:
                    raise InvalidArgumentError(
                        f"{request.error_prefix}output '{output.name}' already exists in request"
                    )
                found.setdefault(output.name, read_output(output))
            request.outputs = list(found.values())
        if self._remember is not None and not self.is_slow:
            self._remember(self._data, request, wants_empty_final=self.wants_empty_final)
        return request

    def _read_inputs(self, request: InferenceRequest) -> None:
        inputs = self._message.inputs
        self._check_count("inputs", len(inputs))
        if len(inputs) > 1:
            self._check_unique([tensor.name for tensor in inputs], request)
        raw, used = self._raw, 0
        for tensor in inputs:
            region = read_region(tensor) if tensor.parameters else None
            name = tensor.name
            datatype = DataType.from_wire(tensor.datatype)
            if region is not None or tensor.HasField("contents"):
                data = self._unusual(tensor, datatype, region)
            elif used < len(raw):
                data = memoryview(raw[used])
                used += 1
            else:
                raise InvalidArgumentError(
                    f"unable to find data for input tensor '{name}' for model '{self.model_name}' in request."
                )
            mistake = rank_mistake(tensor.shape)
            if mistake:
                raise InvalidArgumentError(f"{request.error_prefix}invalid shape for input '{name}': it {mistake}")
            request.inputs[name] = Tensor(name, datatype, tuple(tensor.shape), data)

    def _unusual(self, tensor: Any, datatype: DataType, region: SharedMemoryRef | None) -> memoryview | SharedMemoryRef:
        """Data that is not the next raw tensor: in shared memory or written as numbers."""
        if region is not None:
            if tensor.HasField("contents"):
                raise InvalidArgumentError(
                    f"unexpected 'content' provided when using shared memory for input tensor '{tensor.name}' for "
                    f"model '{self.model_name}'"
                )
            return region
        if self._raw:
            raise InvalidArgumentError(
                f"contents field must not be specified when using raw_input_contents for '{tensor.name}' for model "
                f"'{self.model_name}'"
            )
        return read_contents(tensor, datatype, self.model_name)

    @staticmethod
    def _check_unique(names: list[str], request: InferenceRequest) -> None:
        if len(set(names)) == len(names):
            return
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise InvalidArgumentError(f"{request.error_prefix}input '{name}' already exists in request")
            seen.add(name)

    def _check_count(self, what: str, count: int) -> None:
        if count > _ENTRIES_AT_MOST:
            raise InvalidArgumentError(
                f"the request to model '{self.model_name}' has {count} {what}, at most {_ENTRIES_AT_MOST} are accepted"
            )
