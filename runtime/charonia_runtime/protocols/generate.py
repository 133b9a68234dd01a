"""The generate extension: one flat JSON object in, one out for each response."""

from collections.abc import Callable, Sequence
from typing import Any

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, ResponseSink
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.protocols import json_output, json_text
from charonia_runtime.protocols.v2_json.data import decode_data, encode_data, encodes_slowly
from charonia_runtime.protocols.v2_json.header import parameter_value

_NESTED = "parameters"


def decode_generate(
    text: bytes, config: ModelConfig, model_version: int, sink: ResponseSink, maximum_bytes: int
) -> InferenceRequest:
    """
    A request from a flat object: keys that are inputs become tensors, all others parameters.

    Of a key that stands twice in one object the first value counts, as in Triton, which looks each of them up; an input
    that stands twice is refused. `maximum_bytes` is how much all inputs may hold together.
    Raises InferenceError with Triton's text.
    """
    request = InferenceRequest(config.name, {}, sink, model_version)
    document = json_text.read(text)
    if isinstance(document, dict) and "id" in document:
        try:
            request.id = json_text.as_string(document["id"])
        except InferenceError as error:
            raise error.with_prefix("Unable to parse 'id': ") from None
    _Conversion(request, config, maximum_bytes).convert(document)
    return request


def generates_slowly(response: InferenceResponse) -> bool:
    """Whether `encode_generate` may take longer than the event loop can wait."""
    for tensor in response.outputs:  # noqa: SIM110 - a generator costs twice as much
        if encodes_slowly(tensor):
            return True
    return False


def encode_generate(response: InferenceResponse, is_wanted: Callable[[], bool] = lambda: True) -> bytes:
    """
    A response as an object with sorted keys: its outputs, its parameters, its id and its model.

    Raises InvalidArgumentError for an output that has no JSON form, and CancelledError soon after `is_wanted` is false.
    """
    members = {
        "model_name": json_output.render_text(response.model_name),
        "model_version": b'"%d"' % response.model_version,
    }
    if response.id:
        members["id"] = json_output.render_text(response.id)
    for key, value in response.parameters.items():
        members[key] = json_output.render(value)
    for tensor in response.outputs:
        members[tensor.name] = _encode_tensor(tensor, is_wanted)
    pairs = [b"".join((json_output.render_text(key), b":", members[key])) for key in sorted(members)]
    return b"".join((b"{", b",".join(pairs), b"}"))


class _Conversion:
    """Of one object's members into the tensors and parameters of a request."""

    def __init__(self, request: InferenceRequest, config: ModelConfig, maximum_bytes: int) -> None:
        self._request = request
        self._config = config
        self._maximum_bytes = maximum_bytes
        self._input_bytes = 0
        """What the inputs read so far hold."""

    def convert(self, members: Any, *, nested: bool = False) -> None:
        """Convert an object. Raises InternalError for anything else."""
        for key, _ in json_text.pairs_of(members):
            value = members[key]
            spec = self._config.input(key)
            if key == _NESTED and not nested:
                self._convert_nested(value, spec)
            elif spec is not None:
                self._add_tensor(spec, value)
            else:
                self._request.parameters[key] = parameter_value(key, value)

    def _convert_nested(self, value: Any, spec: TensorSpec | None) -> None:
        if spec is not None:
            raise InvalidArgumentError(f"Keyword '{_NESTED}' for nested schema also given as input tensor name")
        try:
            members = json_text.as_object(value)
        except InferenceError as error:
            raise error.with_prefix(f"Expected JSON object for keyword: '{_NESTED}': ") from None
        try:
            self.convert(members, nested=True)
        except InferenceError as error:
            raise error.with_prefix(f"Converting keyword: '{_NESTED}': ") from None

    def _add_tensor(self, spec: TensorSpec, value: Any) -> None:
        request = self._request
        if spec.name in request.inputs:
            raise InvalidArgumentError(f"{request.error_prefix}input '{spec.name}' already exists in request")
        elements = value if isinstance(value, list) else [value]
        byte_size = _byte_size(spec, elements)
        if self._input_bytes + byte_size > self._maximum_bytes:
            raise InvalidArgumentError(
                f"request size of {self._input_bytes} bytes with input '{spec.name}' of size {byte_size} "
                f"bytes exceeds the maximum allowed input size of {self._maximum_bytes}. Use --http-max-input-size to "
                "increase the limit."
            )
        self._input_bytes += byte_size
        shape = _fit(self._config.full_shape(spec), len(elements), spec.name)
        data = decode_data(spec.name, spec.datatype, shape, elements, self._maximum_bytes)
        request.inputs[spec.name] = Tensor(spec.name, spec.datatype, shape, data)


def _byte_size(spec: TensorSpec, elements: Sequence[Any]) -> int:
    """Return the size of the tensor's data; each BYTES element has four bytes for its length in front."""
    if spec.datatype is DataType.BYTES:
        return sum(4 + len(element.encode("utf-8", "surrogateescape")) for element in elements if type(element) is str)
    return len(elements) * spec.datatype.item_size


def _fit(dims: Sequence[int], count: int, name: str) -> tuple[int, ...]:
    """The configured shape with `count` elements: all that is left in the innermost variable dimension, 1 elsewhere."""
    for dim in dims:
        if dim == -1:
            continue
        if dim == 0 or count % dim or not count:
            raise InvalidArgumentError(f"The schema can not convert input '{name}' to tensor with proper shape")
        count //= dim
    shape = list(dims)
    for index in reversed(range(len(shape))):
        if shape[index] == -1:
            shape[index], count = count, 1
    if count != 1:
        raise InvalidArgumentError(f"The schema can not convert input '{name}' to tensor with proper shape")
    return tuple(shape)


def _encode_tensor(tensor: Tensor, is_wanted: Callable[[], bool]) -> bytes:
    """One element stands alone, several are an array."""
    text = encode_data(tensor, is_wanted)
    if tensor.element_count != 1 or (tensor.datatype is DataType.BYTES and not tensor.byte_size):
        return text
    return text[1:-1]
