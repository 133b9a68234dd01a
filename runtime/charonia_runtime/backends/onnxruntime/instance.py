"""One instance: a batch's inputs into a session, its outputs back to the requests."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.backends.onnxruntime.device_runs import DeviceRuns
from charonia_runtime.backends.onnxruntime.graph import Graph
from charonia_runtime.backends.onnxruntime.library import translate
from charonia_runtime.backends.onnxruntime.tensors import array_of, bfloat16_value, string_array
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.batch_tensors import batch_input, cut_output
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import AnyArray, on_host
from charonia_runtime.core.errors import InferenceError, InternalError, UnsupportedError


class Instance:
    """Runs one batch at a time on a session that others may share; onnxruntime lets go of the GIL while it runs."""

    def __init__(
        self,
        library: Any,
        session: Any,
        run_options: Any,
        config: ModelConfig,
        graph: Graph,
        *,
        device_runs: DeviceRuns | None = None,
    ) -> None:
        """`device_runs` takes the executions that concern a GPU's memory; without it they go over the host."""
        self._device_runs = device_runs
        self._library = library
        self._session = session
        self._run_options = run_options
        self._batch_inputs = config.batch_inputs
        self._batch_outputs = {name: spec for spec in config.batch_outputs for name in spec.target_names}
        states = [state.output_name for state in config.states]
        self._states = frozenset(states)
        self._output_names = list(dict.fromkeys([spec.name for spec in config.outputs] + states))
        accepted = {**graph.inputs, **graph.initializers}
        self._datatypes = {name: tensor.datatype for name, tensor in accepted.items()}
        self._scalars = frozenset(name for name, tensor in accepted.items() if not tensor.shape)
        self._scalar_outputs = {
            spec.name: spec.backend_dims for spec in config.outputs if not graph.outputs[spec.name].shape
        }
        # `run` gives arrays and takes strings, but has no numpy type for BF16 outputs.
        produced = [spec.datatype for spec in config.outputs] + [state.datatype for state in config.states]
        self._in_values = DataType.BF16 in produced
        if self._in_values and DataType.BYTES in self._datatypes.values():
            raise UnsupportedError(
                f"unable to load model '{config.name}', onnxruntime's Python package cannot run models that have both "
                "TYPE_STRING inputs and TYPE_BF16 outputs"
            )

    def execute(self, batch: Batch) -> None:
        runs = self._device_runs
        if runs is not None and runs.concerns(batch):
            outputs = self._run_on_device(batch, runs)
        else:
            feeds = self._feeds(batch)
            batch.mark_inputs_ready()
            outputs = self._run(feeds)
        batch.mark_outputs_ready()
        for name, dims in self._scalar_outputs.items():
            if outputs[name].ndim == 0:
                outputs[name] = outputs[name].reshape(dims)
        if not self._batch_outputs:
            batch.scatter(outputs)
            return
        cut = {
            name: cut_output(batch, spec, name, on_host(outputs.pop(name)))
            for name, spec in self._batch_outputs.items()
        }
        batch.scatter(outputs, cut)

    def close(self) -> None:
        self._session = None
        self._device_runs = None

    def _feeds(self, batch: Batch, *, without: Collection[str] = ()) -> dict[str, Any]:
        # Requests of one batch have the same inputs, so the first one tells which optional ones are there.
        feeds = {name: self._feed(batch, name) for name in batch.requests[0].inputs if name not in without}
        for spec in self._batch_inputs:
            made = batch_input(batch, spec)
            feeds.update(dict.fromkeys(spec.target_names, self._as_value(made) if self._in_values else made))
        return feeds

    def _feed(self, batch: Batch, name: str) -> Any:
        array = batch.gather(name)
        if array is None:
            raise InternalError(f"input '{name}' is missing from the batch")
        if name in self._scalars and array.size == 1:
            array = array.reshape(())
        datatype = self._datatypes[name]
        if datatype is DataType.BF16:
            return bfloat16_value(self._library, array)
        if datatype is DataType.BYTES:
            return string_array(array, name)
        return self._as_value(array) if self._in_values else array

    def _as_value(self, array: npt.NDArray[Any]) -> Any:
        return self._library.OrtValue.ortvalue_from_numpy(np.require(array, requirements=["C", "A"]))

    def _run_on_device(self, batch: Batch, runs: DeviceRuns) -> dict[str, AnyArray]:
        """The same where tensors lie on a GPU. Raises InternalError with onnxruntime's text."""
        bound = {
            name: value
            for name in batch.requests[0].inputs
            if name not in self._scalars and (value := runs.gather(batch, name)) is not None
        }
        feeds = self._feeds(batch, without=bound.keys()) | bound
        batch.mark_inputs_ready()
        kept = batch.wanted_on_device() - self._batch_outputs.keys() - self._states
        try:
            return runs.run(feeds, self._output_names, kept & set(self._output_names), self._run_options)
        except InferenceError:
            raise
        except Exception as error:
            raise translate(error) from error

    def _run(self, feeds: Mapping[str, Any]) -> dict[str, AnyArray]:
        """All configured outputs and states by name. Raises InternalError with onnxruntime's text."""
        try:
            arrays: Sequence[npt.NDArray[Any]]
            if self._in_values:
                values = self._session.run_with_ort_values(self._output_names, feeds, self._run_options)
                arrays = [array_of(value) for value in values]
            else:
                arrays = self._session.run(self._output_names, feeds, self._run_options)
        except InferenceError:
            raise
        except UnicodeDecodeError as error:
            raise InternalError(
                "an output holds a string that is not UTF-8, which onnxruntime's Python package cannot give back"
            ) from error
        except Exception as error:
            raise translate(error) from error
        return dict(zip(self._output_names, arrays, strict=True))
