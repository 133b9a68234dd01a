"""
Inference over HTTP: a JSON header, and behind it the tensors that travel as bytes.

Those are never copied: requests get views into the body, responses a list of buffers.
"""

from collections.abc import Callable
from functools import lru_cache
from math import prod

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, RequestedOutput, ResponseSink
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor, pack_bytes
from charonia_runtime.protocols import json_output
from charonia_runtime.protocols.v2_json.data import encode_data, encodes_slowly
from charonia_runtime.protocols.v2_json.header import Header, OutputForm, read_header

_REMEMBERED_HEADERS = 512
_REMEMBERED_HEADER_BYTES = 4096


class RequestDecoder:
    """
    Decodes inference requests and remembers the headers that it has seen: clients repeat them word for word.

    `maximum_bytes` limits the JSON and each tensor in it. With `newest_rules` an output may be requested once.
    """

    def __init__(self, maximum_bytes: int, *, newest_rules: bool = True) -> None:
        self._maximum_bytes = maximum_bytes
        self._newest_rules = newest_rules
        self._remembered: dict[bytes, Header] = {}

    def decode(
        self, text: bytes, binary: memoryview, model_name: str, model_version: int, sink: ResponseSink
    ) -> tuple[InferenceRequest, OutputForm]:
        """
        The request in the JSON `text` and the `binary` part behind it, and how its response shall be encoded.

        Raises InferenceError with Triton's text for whatever is wrong, checked in Triton's order.
        """
        header = self._remembered.get(text)
        if header is None or header.binary_bytes != binary.nbytes:
            header = self.read(text, binary.nbytes, model_name)
        return make_request(header, binary, model_name, model_version, sink)

    def read(self, text: bytes, binary_bytes: int, model_name: str) -> Header:
        """
        The header in `text` alone, for a text that takes long: it may be read in any thread. Raises as `decode` does.

        `make_request` makes the request of it.
        """
        if len(text) > self._maximum_bytes:
            raise InvalidArgumentError(
                f"request JSON size of {len(text)} bytes exceeds the maximum allowed input size of "
                f"{self._maximum_bytes} bytes. Use --http-max-input-size to increase the limit."
            )
        header = read_header(text, binary_bytes, model_name, self._maximum_bytes, newest_rules=self._newest_rules)
        if len(text) <= _REMEMBERED_HEADER_BYTES:
            if len(self._remembered) >= _REMEMBERED_HEADERS:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[text] = header
        return header


def make_request(
    header: Header, binary: memoryview, model_name: str, model_version: int, sink: ResponseSink
) -> tuple[InferenceRequest, OutputForm]:
    """The request with this header and the `binary` part behind it, and how its response shall be encoded."""
    inputs = {
        name: Tensor(name, part.datatype, part.shape, binary[part.start : part.end] if part.data is None else part.data)
        for name, part in header.inputs.items()
    }
    outputs = [RequestedOutput(output.name, output.classes, output.shared_memory) for output in header.outputs]
    request = InferenceRequest(
        model_name,
        inputs,
        sink,
        model_version,
        header.id,
        outputs,
        header.parameters.copy(),
        header.sequence,
        header.priority,
        header.timeout_us,
    )
    return request, header.form


def decode_raw_request(
    body: memoryview, config: ModelConfig, model_version: int, sink: ResponseSink, maximum_bytes: int
) -> tuple[InferenceRequest, OutputForm]:
    """
    A request whose whole body is the one input of the model; its shape is deduced.

    Raises InvalidArgumentError when the model has another number of inputs, or the size does not fit.
    """
    if body.nbytes > maximum_bytes:
        raise InvalidArgumentError(
            f"Raw input has a byte_size ({body.nbytes} bytes) that exceeds the maximum allowed value of "
            f"{maximum_bytes} bytes. Use --http-max-input-size to increase the limit."
        )
    request = InferenceRequest(config.name, {}, sink, model_version)
    if len(config.inputs) != 1:
        raise InvalidArgumentError(
            f"{request.error_prefix}Raw request must only have 1 input (found 1) to be deduced but got "
            f"{len(config.inputs)} inputs in '{config.name}' model configuration"
        )
    spec = config.inputs[0]
    shape = list(spec.dims)
    if spec.datatype is DataType.BYTES:
        if any(dim != 1 for dim in shape):
            raise InvalidArgumentError(
                f"{request.error_prefix}For BYTE datatype raw input '{spec.name}', the model must have input shape [1]"
            )
        data = pack_bytes([bytes(body)])
    else:
        data = body
        _deduce_dimension(shape, body.nbytes, spec.datatype.item_size, spec.name, request.error_prefix)
        expected = prod(shape) * spec.datatype.item_size
        if expected != body.nbytes:
            raise InvalidArgumentError(
                f"{request.error_prefix}input byte size mismatch for input 'raw_input' for model '{config.name}'. "
                f"Expected {expected}, got {body.nbytes}"
            )
    full_shape = (1, *shape) if config.batches else tuple(shape)
    request.inputs[spec.name] = Tensor(spec.name, spec.datatype, full_shape, data)
    return request, OutputForm(default=True)


def writes_slowly(response: InferenceResponse, form: OutputForm) -> bool:
    """Whether `encode_response` may take longer than the event loop can wait."""
    for tensor in response.outputs:  # noqa: SIM110 - a generator costs twice as much
        if encodes_slowly(tensor) and _becomes_json(tensor, form):
            return True
    return False


def encode_response(
    response: InferenceResponse, form: OutputForm, is_wanted: Callable[[], bool] = lambda: True
) -> tuple[bytes, list[memoryview]]:
    """
    A successful response as JSON and the buffers that follow it; none of them is empty.

    Raises InvalidArgumentError for an output that has no JSON form, and CancelledError soon after `is_wanted` is false.
    """
    buffers: list[memoryview] = []
    outputs = b",".join([_encode_output(tensor, form, buffers, is_wanted) for tensor in response.outputs])
    request_id = b'"id":%b,' % json_output.render_text(response.id) if response.id else b""
    model = _render_model(response.model_name, response.model_version)
    parameters = b'"parameters":%b,' % json_output.render(response.parameters) if response.parameters else b""
    # Joined, not formatted: joining megabytes leaves the interpreter to others.
    return b"".join((b"{", request_id, model, parameters, b'"outputs":[', outputs, b"]}")), buffers


def _encode_output(tensor: Tensor, form: OutputForm, buffers: list[memoryview], is_wanted: Callable[[], bool]) -> bytes:
    start = _render_output(tensor.name, tensor.datatype.wire_name, tensor.shape)
    if isinstance(tensor.data, SharedMemoryRef):
        return start + b"}"
    if form.listed.get(tensor.name, form.default):
        data = tensor.buffer
        if data.nbytes:
            buffers.append(data)
        return b'%b,"parameters":{"binary_data_size":%d}}' % (start, data.nbytes)
    return b"".join((start, b',"data":', encode_data(tensor, is_wanted), b"}"))


def _becomes_json(tensor: Tensor, form: OutputForm) -> bool:
    return not isinstance(tensor.data, SharedMemoryRef) and not form.listed.get(tensor.name, form.default)


@lru_cache(maxsize=1024)
def _render_model(name: str, version: int) -> bytes:
    return b'"model_name":%b,"model_version":"%d",' % (json_output.render_text(name), version)


@lru_cache(maxsize=4096)
def _render_output(name: str, datatype: str, shape: tuple[int, ...]) -> bytes:
    """What every form of an output begins with."""
    sizes = ",".join(map(str, shape)).encode()
    return b'{"name":%b,"datatype":"%b","shape":[%b]' % (json_output.render_text(name), datatype.encode(), sizes)


def _deduce_dimension(shape: list[int], byte_size: int, item_size: int, name: str, prefix: str) -> None:
    """Put the size of the one variable dimension in its place."""
    variable = [index for index, dim in enumerate(shape) if dim == -1]
    if len(variable) > 1:
        raise InvalidArgumentError(
            f"{prefix}The shape of the raw input '{name}' can not be deduced because there are more than one "
            "variable-sized dimension"
        )
    if variable:
        shape[variable[0]] = byte_size // (item_size * prod(dim for dim in shape if dim != -1))
