"""The checks that a request passes before it is queued: every one of Triton's, in its order, with its texts."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, Protocol

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, RequestedOutput
from charonia_runtime.core.string_walk import walk_of
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor, shape_text

_LENGTH_BYTES: Final = 4
"""Of the length field before each BYTES element."""
_REMEMBERED_SHAPES = 256
_BATCH_DIMENSION_NOTE = (
    "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try "
    "setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


class MemoryResolver(Protocol):
    """Finds the bytes that a client's reference names; the result keeps them mapped. Raises InferenceError."""

    def __call__(self, ref: SharedMemoryRef, *, writable: bool) -> memoryview | DeviceBuffer: ...


class _Input:
    """A configured input, and the shapes of it that were accepted before: the checks are pure, so once is enough."""

    __slots__ = ("accepted", "datatype", "lead", "spec")

    def __init__(self, spec: TensorSpec, *, batches: bool) -> None:
        self.spec = spec
        self.datatype = spec.datatype
        self.lead = 1 if batches and not spec.is_shape_tensor else 0
        self.accepted: dict[tuple[int, ...], tuple[int, int]] = {}
        """Shape → rows (0: has none) and byte size; never an input of BYTES, whose contents are checked each time."""

    def remember(self, tensor: Tensor, rows: int) -> None:
        if self.datatype is DataType.BYTES:
            return
        if len(self.accepted) >= _REMEMBERED_SHAPES:
            self.accepted.clear()
        self.accepted[tensor.shape] = (rows if self.lead else 0, tensor.byte_size)


class Admission:
    """
    The checks of one model, prepared once.

    A request like one that was accepted before passes by a few look-ups; any other one is examined in full.
    """

    def __init__(self, config: ModelConfig, resolve_memory: MemoryResolver | None = None) -> None:
        self._model = config.name
        self._maximum = config.max_batch_size
        self._batches = config.batches
        self._resolve_memory = resolve_memory
        self._inputs = {spec.name: _Input(spec, batches=config.batches) for spec in config.inputs}
        self._required = frozenset(spec.name for spec in config.inputs if not spec.optional)
        self._any_optional = len(self._required) < len(self._inputs)
        self._outputs = frozenset(spec.name for spec in config.outputs)

    def check(self, request: InferenceRequest) -> None:
        """Set `batch_size` and find the memory that references name. Raises InferenceError for a refused request."""
        for output in request.outputs:
            if output.shared_memory is not None:
                self._resolve_output(output)
            if output.name not in self._outputs:
                raise InvalidArgumentError(f"unexpected inference output '{output.name}' for model '{self._model}'")
        request.batch_size = self._rows_if_known(request) or self._examine(request)

    def _rows_if_known(self, request: InferenceRequest) -> int:
        """The rows of a request whose inputs are all like accepted ones; 0 when that is not certain."""
        inputs = request.inputs
        if len(inputs) != len(self._inputs) and not (self._any_optional and inputs.keys() >= self._required):
            return 0
        rows = 0
        for name, tensor in inputs.items():
            known = self._inputs.get(name)
            if known is None or tensor.datatype is not known.datatype:
                return 0
            accepted = known.accepted.get(tensor.shape)
            data = tensor.data
            if accepted is None or isinstance(data, SharedMemoryRef) or data.nbytes != accepted[1]:
                return 0
            if accepted[0] != rows:
                if rows and accepted[0]:
                    return 0
                rows = rows or accepted[0]
        return rows or 1

    def _resolve_input(self, tensor: Tensor) -> None:
        if isinstance(tensor.data, SharedMemoryRef) and self._resolve_memory is not None:
            tensor.data = self._resolve_memory(tensor.data, writable=False)

    def _resolve_output(self, output: RequestedOutput) -> None:
        if output.shared_memory is not None and self._resolve_memory is not None:
            output.memory = self._resolve_memory(output.shared_memory, writable=True)

    def _examine(self, request: InferenceRequest) -> int:
        """Every check, in Triton's order; the request's rows."""
        for tensor in request.inputs.values():
            self._resolve_input(tensor)
        self._check_names(request)
        # Last one first, as the real server is seen to: of several faulty inputs clients hear of the same one.
        ordered = [(self._inputs[name], request.inputs[name]) for name in reversed(request.inputs)]
        rows = self._check_rows(request, ordered)
        for known, tensor in ordered:
            self._check_type_and_shape(request, known, tensor)
            self._check_size(request, known, tensor)
        self._refuse_impossible_sizes(request, ordered, rows)
        for known, tensor in ordered:
            known.remember(tensor, rows)
        return rows

    def _check_names(self, request: InferenceRequest) -> None:
        given, required = request.inputs.keys(), self._required
        right_count = len(required) <= len(given) <= len(self._inputs)
        unknown = sorted(name for name in given if name not in self._inputs)
        if right_count and unknown:
            raise InvalidArgumentError(f"unexpected inference input '{unknown[0]}' for model '{self._model}'")
        if right_count and required <= given:
            return
        expected = (
            f"number of inputs between {len(required)} and {len(self._inputs)}"
            if self._any_optional
            else f"{len(self._inputs)} inputs"
        )
        missing = _quoted(sorted(required - given))
        missing_list = f"[{missing}]" if missing else "]"
        raise InvalidArgumentError(
            f"{request.error_prefix}expected {expected} but got {len(given)} inputs for model '{self._model}'. "
            f"Got input(s) [{_quoted(sorted(given))}], but missing required input(s) {missing_list}. "
            "Please provide all required input(s)."
        )

    def _check_rows(self, request: InferenceRequest, ordered: list[tuple[_Input, Tensor]]) -> int:
        if not self._batches:
            return 1
        rows: int | None = None
        for known, tensor in ordered:
            if not known.lead:
                continue
            if not tensor.shape:
                raise InvalidArgumentError(
                    f"{request.error_prefix}input '{tensor.name}' has no shape but model requires batch dimension "
                    f"for '{self._model}'"
                )
            if rows is not None and tensor.shape[0] != rows:
                raise InvalidArgumentError(
                    f"{request.error_prefix}input '{tensor.name}' batch size does not match other inputs "
                    f"for '{self._model}'"
                )
            rows = tensor.shape[0]
        rows = 1 if rows is None else rows
        if rows > self._maximum:
            raise InvalidArgumentError(
                f"{request.error_prefix}inference request batch-size must be <= {self._maximum} for '{self._model}'"
            )
        return rows

    def _check_type_and_shape(self, request: InferenceRequest, known: _Input, tensor: Tensor) -> None:
        if tensor.datatype is not known.datatype:
            raise InvalidArgumentError(
                f"{request.error_prefix}inference input '{tensor.name}' data-type is '{tensor.datatype.wire_name}', "
                f"but model '{self._model}' expects '{known.datatype.wire_name}'"
            )
        dims, sizes = known.spec.dims, tensor.shape[known.lead :]
        matches = len(dims) == len(sizes)
        for dim, size in zip(dims, sizes, strict=False) if matches else ():
            if size == -1:
                raise self._unspecified_dimension(request, tensor)
            if dim not in (-1, size):
                matches = False
                break
        if not matches:
            raise InvalidArgumentError(
                f"{request.error_prefix}unexpected shape for input '{tensor.name}' for model '{self._model}'. "
                f"Expected {shape_text((-1, *dims) if known.lead else dims)}, got {shape_text(tensor.shape)}. "
                f"{_BATCH_DIMENSION_NOTE if self._batches else ''}"
            )

    def _check_size(self, request: InferenceRequest, known: _Input, tensor: Tensor) -> None:
        elements = expected_elements(tensor.shape, batches=bool(known.lead))
        if known.datatype is DataType.BYTES:
            self._check_strings(request, tensor, elements)
        elif tensor.byte_size != elements * known.datatype.item_size:
            raise InvalidArgumentError(
                f"{request.error_prefix}input byte size mismatch for input '{tensor.name}' for model '{self._model}'. "
                f"Expected {elements * known.datatype.item_size}, got {tensor.byte_size}"
            )

    def _check_strings(self, request: InferenceRequest, tensor: Tensor, expected: int) -> None:
        """Count the elements by their length fields. One that is cut short would fail all requests of its batch."""
        walk = walk_of(tensor, expected)
        complete, left, length = walk.count >= expected, tensor.byte_size - walk.end, walk.length
        subject = f"for inference input '{tensor.name}' for model '{self._model}'"
        if complete and left > 0:
            raise InvalidArgumentError(
                f"{request.error_prefix}unexpected number of string elements {expected + 1} {subject}, "
                f"expecting {expected}"
            )
        if complete and left < 0:
            raise InvalidArgumentError(
                f"incomplete string data for inference input '{tensor.name}', expecting string of length {length} "
                f"but only {length + left} bytes available"
            )
        if not complete and left > 0:
            raise InvalidArgumentError(
                f"{request.error_prefix}incomplete string length indicator {subject}, expecting {_LENGTH_BYTES} bytes "
                f"but only {left} bytes available. Please make sure the string length indicator is in one buffer."
            )
        if not complete:
            raise InvalidArgumentError(
                f"{request.error_prefix}expected {expected} string elements {subject}, got {walk.count}"
            )

    def _refuse_impossible_sizes(
        self, request: InferenceRequest, ordered: list[tuple[_Input, Tensor]], rows: int
    ) -> None:
        """No rows at all hang the real server's model, negative sizes confuse it; nothing here survives them."""
        if rows < 1:
            raise InvalidArgumentError(
                f"{request.error_prefix}inference request batch-size must be >= 1 for '{self._model}'"
            )
        for _, tensor in ordered:
            if any(size < 0 for size in tensor.shape):
                raise self._unspecified_dimension(request, tensor)

    def _unspecified_dimension(self, request: InferenceRequest, tensor: Tensor) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{request.error_prefix}All input dimensions should be specified for input '{tensor.name}' "
            f"for model '{self._model}', got {shape_text(tensor.shape)}"
        )


def expected_elements(shape: Sequence[int], *, batches: bool) -> int:
    """
    The elements that a tensor of this shape should have, where it `batches` the rows of its first dimension.

    Zero rows count as one here, and negative ones wrap to 32 bits: so the real server words its refusals.
    """
    if not batches:
        return prod(shape)
    return (shape[0] & 0xFFFFFFFF or 1) * prod(shape[1:])


def _quoted(names: Iterable[str]) -> str:
    return ",".join(f"'{name}'" for name in names)
