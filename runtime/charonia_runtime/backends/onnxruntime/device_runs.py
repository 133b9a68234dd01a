"""Executions of sessions on a GPU whose inputs lie there already, or whose outputs stay there."""

import logging
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any, Final

from charonia_runtime.backends.onnxruntime.graph import Graph
from charonia_runtime.backends.onnxruntime.tensors import array_of
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import AnyArray, DeviceArray, DeviceBuffer, DeviceCopier
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.tensor import bytes_of
from charonia_runtime.cuda.copying import CudaCopier
from charonia_runtime.cuda.runtime import Cuda

logger = logging.getLogger(__name__)

_ONNX_BFLOAT16: Final = 16


class DeviceRuns:
    """
    Runs a session with tensors bound by their addresses.

    Only executions that concern the GPU come here: `session.run` moves arrays of the host by itself, for less.
    """

    def __init__(self, library: Any, session: Any, graph: Graph, copier: DeviceCopier, device: tuple[str, int]) -> None:
        """`device` is its type and number, as onnxruntime calls them."""
        self._library = library
        self._session = session
        self._outputs = {name: tensor.datatype for name, tensor in graph.outputs.items()}
        self._copier = copier
        self._type, self._number = device

    @classmethod
    def on_gpu(cls, library: Any, session: Any, graph: Graph, device_id: int) -> "DeviceRuns | None":
        """None where it cannot be done: tensors take the way over the host then."""
        tensors = [*graph.inputs.values(), *graph.initializers.values()]
        if any(tensor.datatype is DataType.BYTES for tensor in tensors):
            return None  # strings cannot be bound
        try:
            copier = CudaCopier(Cuda.open("gpu"))
        except InferenceError as error:
            logger.info("onnxruntime's tensors pass between GPU models over the host: %s", error)
            return None
        return cls(library, session, graph, copier, ("cuda", device_id))

    def concerns(self, batch: Batch) -> bool:
        """Whether an input of the batch lies on a GPU, or somebody takes an output from there."""
        return any(
            isinstance(tensor.data, DeviceBuffer) for request in batch.requests for tensor in request.inputs.values()
        ) or bool(batch.wanted_on_device())

    def gather(self, batch: Batch, name: str) -> Any | None:
        """Input `name` on the GPU, as `run` takes it; None where it does not lie there."""
        if not any(isinstance(request.inputs[name].data, DeviceBuffer) for request in batch.requests):
            return None
        pieces = batch.pieces(name)
        first = pieces[0]
        if len(pieces) == 1 and isinstance(first, DeviceArray) and first.buffer.device_id == self._number:
            return first
        return self._joined(pieces, batch.requests[0].inputs[name].datatype, batch.gathered_shape(name))

    def run(
        self, feeds: Mapping[str, Any], names: Sequence[str], kept: Collection[str], options: Any
    ) -> dict[str, AnyArray]:
        """Outputs `names`; those in `kept` stay on the GPU. May raise whatever onnxruntime raises."""
        binding = self._session.io_binding()
        for name, value in feeds.items():
            self._bind(binding, name, value)
        for name in names:
            if name in kept:
                binding.bind_output(name, self._type, self._number)
            else:
                binding.bind_output(name)
        binding.synchronize_inputs()
        self._session.run_with_iobinding(binding, options)
        binding.synchronize_outputs()
        values = dict(zip(names, binding.get_outputs(), strict=True))
        return {name: self._kept(name, value) if name in kept else array_of(value) for name, value in values.items()}

    def _bind(self, binding: Any, name: str, value: Any) -> None:
        if isinstance(value, DeviceArray) and value.size:
            binding.bind_input(
                name, self._type, self._number, _element_type(value.datatype), value.shape, value.buffer.address
            )
        elif isinstance(value, self._library.OrtValue):
            binding.bind_ortvalue_input(name, value)
        else:
            binding.bind_cpu_input(name, value.to_host() if isinstance(value, DeviceArray) else value)

    def _joined(self, pieces: Sequence[AnyArray], datatype: DataType, shape: tuple[int, ...]) -> Any:
        """All pieces in one new tensor on the GPU."""
        joined = self._library.OrtValue.ortvalue_from_shape_and_type(
            shape, _element_type(datatype), self._type, self._number
        )
        target = self._buffer(joined, sum([piece.size for piece in pieces]) * datatype.item_size)
        at = 0
        for piece in pieces:
            source = piece.buffer if isinstance(piece, DeviceArray) else bytes_of(piece)
            target[at:].fill(source)
            at += source.nbytes
        return joined

    def _kept(self, name: str, value: Any) -> DeviceArray:
        shape, datatype = tuple(value.shape()), self._outputs[name]
        return DeviceArray(datatype, shape, self._buffer(value, prod(shape) * datatype.item_size))

    def _buffer(self, value: Any, size: int) -> DeviceBuffer:
        return DeviceBuffer(value.data_ptr(), size, self._number, value, self._copier)


def _element_type(datatype: DataType) -> Any:
    """As bindings want it: numpy's type, or ONNX's number where numpy has none."""
    return _ONNX_BFLOAT16 if datatype is DataType.BF16 else datatype.numpy_dtype.type
