"""One instance: a batch's inputs to its GPU, through the engine, and its outputs back to the requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from charonia_runtime.backends.tensorrt.contexts import ProfileContext
from charonia_runtime.backends.tensorrt.engine import EngineDescription, EngineTensor
from charonia_runtime.backends.tensorrt.graphs import Graphs, padded_rows
from charonia_runtime.backends.tensorrt.memory import InputMemory, OutputMemory
from charonia_runtime.backends.tensorrt.profiles import check_profile, choose_profile
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.batch_tensors import batch_input, cut_output
from charonia_runtime.core.config import CudaGraphSpec, ModelConfig
from charonia_runtime.core.device import AnyArray, DeviceArray, DeviceBuffer, on_host
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.core.tensor import bytes_of
from charonia_runtime.cuda.copying import CudaCopier
from charonia_runtime.cuda.memory import Block, MemoryPool
from charonia_runtime.cuda.runtime import Cuda, Stream

_REMEMBERED_SHAPES: Final = 256
_RUNS_BEFORE_RECORDING: Final = 2


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the instances of a model on one GPU share."""

    cuda: Cuda
    device_id: int
    engine: Any
    description: EngineDescription
    device_pool: MemoryPool
    pinned_pool: MemoryPool
    copier: CudaCopier


@dataclass(slots=True)
class _Gathered:
    """What a batch gives the engine: the bytes of each input, its shape, and the values of shape tensors."""

    buffers: dict[str, Sequence[memoryview | DeviceBuffer]] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    values: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class _Produced:
    """Where the engine has put an output."""

    block: Block
    shape: tuple[int, ...]


class Instance:
    """
    Runs one batch at a time on a stream of its own; CUDA lets go of the GIL while it waits.

    Copies to the GPU, the execution and copies back are waited for together, once, so that statistics count all of it
    as computing.
    """

    def __init__(
        self, gpu: Gpu, config: ModelConfig, name: str, stream: Stream, contexts: Mapping[int, ProfileContext]
    ) -> None:
        """`contexts` by profile, on `stream`, whose device is this thread's."""
        self._gpu = gpu
        self._cuda = gpu.cuda
        self._config = config
        self._name = name
        self._stream = stream
        self._event = None if config.optimization.busy_wait_events else gpu.cuda.create_event()
        self._contexts: Mapping[int, ProfileContext] = contexts
        self._engine = gpu.description
        self._engine_inputs = gpu.description.inputs
        self._engine_outputs = gpu.description.outputs
        self._inputs = {
            name: InputMemory(gpu.cuda, gpu.device_id, gpu.pinned_pool, gpu.device_pool)
            for name, tensor in self._engine_inputs.items()
            if not tensor.on_host
        }
        self._on_host = {
            name: np.zeros(_byte_size(tensor, tensor.shape), np.uint8)
            for name, tensor in self._engine_inputs.items()
            if tensor.on_host
        }
        """What the engine reads there: the values of shape tensors, whose sizes are fixed."""
        self._outputs = {
            name: OutputMemory(gpu.pinned_pool if tensor.on_host else gpu.device_pool)
            for name, tensor in self._engine_outputs.items()
        }
        self._profiles: dict[tuple[tuple[int, ...], ...], int] = {}
        """By the shapes and values of a batch's inputs."""
        self._configured = [spec.name for spec in config.outputs]
        self._batch_outputs = {name: spec for spec in config.batch_outputs for name in spec.target_names}
        self._states = frozenset(state.output_name for state in config.states)
        self._hidden = [name for name in self._states if name not in self._configured]
        self._graphs = Graphs(gpu.cuda, stream, name) if config.optimization.cuda_graphs else None

    # --- what the engine calls ---

    def execute(self, batch: Batch) -> None:
        if not self._contexts:
            raise InternalError("the instance is closed")
        self._cuda.use(self._gpu.device_id)
        gathered = self._gather(batch)
        try:
            if self._graphs is not None:
                self._pad(batch.rows, gathered)
            produced = self._run(gathered)
            batch.mark_inputs_ready()
            outputs = self._take(batch, produced)
        except InferenceError:
            self._settle()
            raise
        batch.mark_outputs_ready()
        self._answer(batch, outputs)

    def record(self, spec: CudaGraphSpec) -> None:
        """
        Record the graph that the configuration asks for, on inputs of zeros.

        Raises InvalidArgumentError where it leaves sizes open, or values of shape tensors.
        """
        gathered = _Gathered()
        for name, tensor in self._engine_inputs.items():
            dims = spec.inputs.get(name, tensor.shape[1:] if self._config.batches else tensor.shape)
            shape = (spec.batch_size, *dims) if self._config.batches else dims
            if tensor.is_shape_tensor or any(size < 0 for size in shape):
                raise InvalidArgumentError(
                    f"optimization.cuda.graph_spec of model '{self._config.name}' must give the dims of input '{name}'"
                    ", and the model must have no shape tensors"
                )
            gathered.shapes[name] = shape
            gathered.buffers[name] = [memoryview(bytes(_byte_size(tensor, shape)))]
        for _ in range(_RUNS_BEFORE_RECORDING):
            self._run(gathered)
            self._wait()

    def close(self) -> None:
        self._cuda.use(self._gpu.device_id)
        if self._graphs is not None:
            self._graphs.close()
        self._contexts = {}
        self._inputs, self._outputs = {}, {}
        if self._event is not None:
            self._cuda.destroy_event(self._event)
        self._cuda.destroy_stream(self._stream)

    # --- inputs ---

    def _gather(self, batch: Batch) -> _Gathered:
        """Raises InvalidArgumentError for an input of another size than its shape says."""
        gathered = _Gathered()
        for spec in self._config.batch_inputs:
            made = batch_input(batch, spec)
            for name in spec.target_names:
                gathered.buffers[name], gathered.shapes[name] = [bytes_of(made)], made.shape
        given = batch.requests[0].inputs
        for name, tensor in self._engine_inputs.items():
            if name in gathered.shapes:
                continue
            if name not in given:
                raise InternalError(f"input '{name}' is missing from the batch")
            if tensor.is_shape_tensor:
                self._gather_values(batch, tensor, gathered)
                continue
            gathered.buffers[name] = [_where_it_lies(request.inputs[name]) for request in batch.requests]
            gathered.shapes[name] = shape = batch.gathered_shape(name) if tensor.shape else ()
            self._check_size(tensor, shape, gathered.buffers[name])
        return gathered

    def _gather_values(self, batch: Batch, tensor: EngineTensor, gathered: _Gathered) -> None:
        """The values of a shape tensor, the same in all requests; the number of rows stands before them."""
        given = batch.requests[0].inputs[tensor.name]
        values = tuple(np.frombuffer(given.buffer, tensor.datatype.numpy_dtype).tolist())
        gathered.values[tensor.name] = (batch.rows, *values) if self._config.batches else values
        gathered.shapes[tensor.name] = (len(gathered.values[tensor.name]),) if tensor.shape else ()

    def _check_size(
        self, tensor: EngineTensor, shape: tuple[int, ...], buffers: Sequence[memoryview | DeviceBuffer]
    ) -> None:
        expected = _byte_size(tensor, shape)
        given = sum([buffer.nbytes for buffer in buffers])
        if given != expected:
            raise InvalidArgumentError(
                f"input byte size mismatch for input '{tensor.name}' for model '{self._config.name}'. Expected "
                f"{expected}, got {given}"
            )

    # --- execution ---

    def _run(self, gathered: _Gathered) -> dict[str, _Produced]:
        """Put everything into the stream; the outputs are where the result says once it was waited for."""
        profile = self._profile(gathered)
        addresses = self._place(gathered)
        if self._graphs is None:
            return self._enqueue(self._contexts[profile], gathered, addresses)
        key = (profile, tuple(gathered.shapes.values()), tuple(gathered.values.values()))
        recorded = self._graphs.find(key, addresses)
        if recorded is not None:
            produced = {
                name: _Produced(self._outputs[name].block(self._size(name, shape)), shape)
                for name, shape in recorded.output_shapes.items()
            }
            if all(made.block.address == recorded.addresses[name] for name, made in produced.items()):
                self._graphs.launch(recorded)
                return produced
        context = self._contexts[profile]
        produced = self._enqueue(context, gathered, addresses)
        if self._graphs.is_due(key) and not context.allocators:
            self._wait()
            places = addresses | {name: made.block.address for name, made in produced.items()}
            shapes = {name: made.shape for name, made in produced.items()}
            self._graphs.record(key, context.enqueue, places, shapes)
        return produced

    def _profile(self, gathered: _Gathered) -> int:
        """The profile that runs the batch. Raises InvalidArgumentError where none can."""
        key = (*gathered.shapes.values(), *gathered.values.values())
        profile = self._profiles.get(key)
        if profile is None:
            profile = choose_profile(self._engine, tuple(self._contexts), gathered.shapes, gathered.values)
            check_profile(self._engine, profile, gathered.shapes, gathered.values, self._name)
            if len(self._profiles) >= _REMEMBERED_SHAPES:
                self._profiles.clear()
            self._profiles[key] = profile
        return profile

    def _pad(self, rows: int, gathered: _Gathered) -> None:
        """More rows than there are, where a graph was asked for that many. Whatever they hold, nobody will see it."""
        padded = padded_rows(self._config.optimization.cuda_graph_specs, rows, gathered.shapes)
        if padded is None or not rows < padded <= self._config.max_batch_size:
            return
        for name, shape in gathered.shapes.items():
            if name in gathered.values:
                gathered.values[name] = (padded, *gathered.values[name][1:])
            elif shape[:1] == (rows,):
                gathered.shapes[name] = (padded, *shape[1:])

    def _place(self, gathered: _Gathered) -> dict[str, int]:
        """The address of each input; copies are under way."""
        addresses: dict[str, int] = {}
        for name, shape in gathered.shapes.items():
            tensor = self._engine_inputs[name]
            values = gathered.values.get(name)
            if values is not None:
                gathered.buffers[name] = [bytes_of(np.array(values, tensor.datatype.numpy_dtype))]
            if tensor.on_host:
                memory = self._on_host[name]
                memory.data[:] = b"".join([_host_bytes(buffer) for buffer in gathered.buffers[name]])
                addresses[name] = memory.ctypes.data
                continue
            addresses[name] = self._inputs[name].place(
                gathered.buffers[name],
                max(_byte_size(tensor, shape), 1),
                self._stream,
                own_address=self._graphs is not None,
            )
        return addresses

    def _enqueue(
        self, context: ProfileContext, gathered: _Gathered, addresses: Mapping[str, int]
    ) -> dict[str, _Produced]:
        produced: dict[str, _Produced] = {}
        for name, shape in context.prepare(gathered.shapes, gathered.values, addresses).items():
            if shape is None:
                context.allocate_later(name)
                continue
            block = self._outputs[name].block(self._size(name, shape))
            context.set_address(name, block.address)
            produced[name] = _Produced(block, shape)
        context.enqueue()
        for name, allocator in context.allocators.items():
            produced[name] = _Produced(*allocator.take())
        return produced

    def _size(self, name: str, shape: tuple[int, ...]) -> int:
        return max(_byte_size(self._engine_outputs[name], shape), 1)

    def _wait(self) -> None:
        if self._event is None:
            self._cuda.wait(self._stream)
        else:
            self._cuda.wait_asleep(self._stream, self._event)

    def _settle(self) -> None:
        """After a failure nothing may go on that reads or writes our memory. A GPU that is lost says so again."""
        try:
            self._cuda.wait(self._stream)
        except InferenceError:
            return

    # --- outputs ---

    def _take(self, batch: Batch, produced: Mapping[str, _Produced]) -> dict[str, AnyArray]:
        """The outputs that some request wants, on the GPU or the host, complete."""
        on_device = batch.wanted_on_device() - self._states - self._batch_outputs.keys()
        outputs: dict[str, AnyArray] = {}
        staged: dict[str, Block] = {}
        for name in self._wanted(batch):
            made, tensor = produced[name], self._engine_outputs[name]
            size = _byte_size(tensor, made.shape)
            if tensor.on_host:
                staged[name] = self._outputs[name].give_away(made.block)
            elif name in on_device:
                block = self._keep(name, made, size)
                buffer = DeviceBuffer(block.address, size, self._gpu.device_id, block, self._gpu.copier)
                outputs[name] = DeviceArray(tensor.datatype, made.shape, buffer)
            else:
                staged[name] = block = self._gpu.pinned_pool.take(size)
                if size:
                    self._cuda.copy(block.address, made.block.address, size, self._stream)
        self._wait()
        for name, block in staged.items():
            tensor, shape = self._engine_outputs[name], produced[name].shape
            content = np.asarray(block)[: _byte_size(tensor, shape)]
            outputs[name] = content.view(tensor.datatype.numpy_dtype).reshape(shape)
        return outputs

    def _wanted(self, batch: Batch) -> Sequence[str]:
        """In the configuration's order; states of sequences too."""
        if not all(request.outputs for request in batch.requests):
            return self._configured + self._hidden
        asked = {output.name for request in batch.requests for output in request.outputs} | self._states
        return [name for name in self._configured if name in asked] + self._hidden

    def _keep(self, name: str, made: _Produced, size: int) -> Block:
        """A block that holds the output and belongs to the answer."""
        if self._graphs is None:
            return self._outputs[name].give_away(made.block)
        block = self._gpu.device_pool.take(size)
        if size:
            self._cuda.copy(block.address, made.block.address, size, self._stream)
        return block

    def _answer(self, batch: Batch, outputs: dict[str, AnyArray]) -> None:
        cut: dict[str, Sequence[npt.NDArray[Any]]] = {}
        for name, tensor in self._engine_outputs.items():
            if name not in outputs:
                continue
            if name in self._batch_outputs:
                cut[name] = cut_output(batch, self._batch_outputs[name], name, on_host(outputs.pop(name)))
            elif tensor.is_shape_tensor:
                values = on_host(outputs.pop(name)).reshape(-1)
                cut[name] = [values[1:] if self._config.batches else values] * len(batch.requests)
            elif not tensor.shape:
                spec = self._config.output(name)
                outputs[name] = outputs[name].reshape((1,) if spec is None else spec.backend_dims)
        batch.scatter(outputs, cut or None)


def _where_it_lies(tensor: Any) -> memoryview | DeviceBuffer:
    data = tensor.data
    return data if isinstance(data, DeviceBuffer) else tensor.buffer


def _host_bytes(buffer: memoryview | DeviceBuffer) -> memoryview:
    return buffer.to_host() if isinstance(buffer, DeviceBuffer) else buffer


def _byte_size(tensor: EngineTensor, shape: tuple[int, ...]) -> int:
    return prod(shape) * tensor.datatype.item_size
