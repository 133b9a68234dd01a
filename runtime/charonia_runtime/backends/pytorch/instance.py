"""One instance: a batch's inputs into a program, its outputs back to the requests."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from charonia_runtime.backends.pytorch.devices import Device
from charonia_runtime.backends.pytorch.library import datatypes, execution_error
from charonia_runtime.backends.pytorch.program import Program, dims_behind_list
from charonia_runtime.backends.pytorch.settings import Settings
from charonia_runtime.backends.pytorch.strings import array_of, strings_of
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.batch_tensors import batch_input, cut_output
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import AnyArray, DeviceArray, DeviceBuffer, on_host
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError


class Instance:
    """Runs one batch at a time. torch lets go of the GIL while it runs."""

    def __init__(self, torch: Any, program: Program, device: Device, config: ModelConfig, settings: Settings) -> None:
        self._torch = torch
        self._program: Program | None = program
        self._device = device
        # Made once, entered for each execution.
        self._stream = device.stream()
        self._gradients = torch.inference_mode() if settings.inference_mode else torch.no_grad()
        self._optimization: Callable[[], AbstractContextManager[Any]] = (
            nullcontext if settings.optimized_execution else partial(torch.jit.optimized_execution, False)
        )
        self._cache_cleaning = settings.cache_cleaning
        self._datatypes = datatypes(torch)
        self._batch_inputs = config.batch_inputs
        self._batch_outputs = {name: spec for spec in config.batch_outputs for name in spec.target_names}
        self._expected = {spec.name: spec.datatype for spec in config.outputs}
        self._expected |= {state.output_name: state.datatype for state in config.states}
        # States stay with the server, and what is cut by an input's shape is cut on the host.
        self._host_only = self._batch_outputs.keys() | {state.output_name for state in config.states}
        self._dims_behind_lists = {
            spec.name: dims_behind_list(config, spec) for spec in config.outputs if spec.datatype is DataType.BYTES
        }

    def execute(self, batch: Batch) -> None:
        program = self._program
        if program is None:
            raise InternalError("the instance is closed")
        with self._stream, self._gradients, self._optimization():
            try:
                values = self._values(batch, program)
                batch.mark_inputs_ready()
                leaves = program.run(values)
                self._device.wait()
                batch.mark_outputs_ready()
                outputs = self._outputs(batch, program, leaves)
            except InferenceError:
                raise
            except self._torch.cuda.OutOfMemoryError as error:
                self._device.clean()
                raise execution_error(error) from error
            except Exception as error:
                raise execution_error(error) from error
        self._answer(batch, outputs)
        if self._cache_cleaning:
            self._device.clean()

    def close(self) -> None:
        self._program = None
        self._device.clean()

    def _values(self, batch: Batch, program: Program) -> list[Any]:
        values: list[Any] = [None] * len(program.input_positions)
        for name, tensor in batch.requests[0].inputs.items():
            position = program.input_positions[name]
            if self._device.reads_devices and any(
                isinstance(request.inputs[name].data, DeviceBuffer) for request in batch.requests
            ):
                values[position] = self._joined(batch, name, tensor.datatype)
                continue
            array = batch.gather(name)
            if array is None:
                raise InternalError(f"input '{name}' is missing from the batch")
            values[position] = (
                strings_of(array, name)
                if tensor.datatype is DataType.BYTES
                else self._device.from_host(array, tensor.datatype)
            )
        for spec in self._batch_inputs:
            made = batch_input(batch, spec)
            for name in spec.target_names:
                values[program.input_positions[name]] = self._device.from_host(made, spec.datatype)
        return values

    def _joined(self, batch: Batch, name: str, datatype: DataType) -> Any:
        """Input `name` of all requests, some of which lies on a GPU."""
        pieces = [
            self._device.from_device(piece)
            if isinstance(piece, DeviceArray)
            else self._device.from_host(piece, datatype)
            for piece in batch.pieces(name)
        ]
        return pieces[0] if len(pieces) == 1 else self._torch.cat(pieces)

    def _outputs(self, batch: Batch, program: Program, leaves: Sequence[Any]) -> dict[str, AnyArray]:
        """
        All configured outputs and states by name, those that somebody takes from a GPU where they are.

        Raises InvalidArgumentError for what is not as configured.
        """
        named = self._checked(program, leaves)
        outputs: dict[str, AnyArray] = {}
        if self._device.reads_devices:
            for name in batch.wanted_on_device() & named.keys() - self._host_only:
                kept = None if isinstance(named[name], list) else self._device.keep(named[name], self._expected[name])
                if kept is not None:
                    outputs[name] = kept
                    del named[name]
            if outputs:
                self._device.wait()
        for name in [name for name, leaf in named.items() if isinstance(leaf, list)]:
            outputs[name] = array_of(named.pop(name), self._dims_behind_lists.get(name, ()))
        return outputs | dict(zip(named, self._device.to_host(list(named.values())), strict=True))

    def _checked(self, program: Program, leaves: Sequence[Any]) -> dict[str, Any]:
        """What the model has made, by name: tensors and lists of strings."""
        named: dict[str, Any] = {}
        for name, position in program.output_positions.items():
            if position >= len(leaves):
                raise InvalidArgumentError(
                    f"The output {name} in the model configuration refers to an output index which doesn't exist. "
                    f"This model has {len(leaves)} outputs"
                )
            leaf = leaves[position]
            is_text = isinstance(leaf, list)
            produced = DataType.BYTES if is_text else self._datatypes.get(leaf.dtype, DataType.INVALID)
            if produced is not self._expected[name]:
                raise program.wrong_datatype(name, self._expected[name], produced)
            if not is_text and leaf.ndim == 0:
                raise InvalidArgumentError(f"output '{name}' is a scalar which is not supported.")
            named[name] = leaf
        return named

    def _answer(self, batch: Batch, outputs: dict[str, AnyArray]) -> None:
        if not self._batch_outputs:
            batch.scatter(outputs)
            return
        cut = {
            name: cut_output(batch, spec, name, on_host(outputs.pop(name)))
            for name, spec in self._batch_outputs.items()
        }
        batch.scatter(outputs, cut)
