"""One instance: the rows of a batch as samples into a pipeline, its outputs back to the requests."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.backends.dali.library import DATATYPES, translated
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InternalError, UnknownError

Array = npt.NDArray[Any]
_Samples = Array | list[Array]
"""One array where all samples have one shape, else one for each."""
_DATATYPES = {datatype.numpy_dtype: datatype for datatype in DATATYPES.values()}


class Instance:
    """Runs one batch at a time on a pipeline of its own. A pipeline that has failed once is of no use any more."""

    def __init__(self, open_pipeline: Callable[[], Any], config: ModelConfig, split: frozenset[str]) -> None:
        self._open = open_pipeline
        self._pipeline: Any = open_pipeline()
        self._inputs = [spec.name for spec in config.inputs]
        self._outputs = {spec.name: spec for spec in config.outputs}
        self._split = split
        self._scalars = {spec.name for spec in config.outputs if spec.dims == (1,)}

    def execute(self, batch: Batch) -> None:
        samples = {name: _samples(batch, name) for name in self._inputs}
        batch.mark_inputs_ready()
        try:
            with translated():
                made = self._run(samples)
        except UnknownError:
            self._pipeline = None
            raise
        batch.mark_outputs_ready()
        counts = [request.batch_size if batch.config.batches else len(made[0]) for request in batch.requests]
        cut = {name: self._divided(name, rows, counts) for name, rows in zip(self._outputs, made, strict=True)}
        batch.scatter({}, cut)

    def close(self) -> None:
        self._pipeline = None

    def _run(self, samples: dict[str, _Samples]) -> list[_Samples]:
        """Samples by input → samples by the position of their output."""
        if self._pipeline is None:
            self._pipeline = self._open()
        for name, rows in samples.items():
            self._pipeline.feed_input(name, rows)
        return [_on_host(output) for output in self._pipeline.run()]

    def _divided(self, name: str, rows: _Samples, counts: Sequence[int]) -> list[Array]:
        """One array for each request. Raises InternalError for what is not as configured, or not of one shape."""
        pieces: list[Array] = []
        start = 0
        for count in counts:
            pieces.append(self._joined(name, rows[start : start + count]))
            start += count
        expected = self._outputs[name].datatype
        produced = _DATATYPES.get(pieces[0].dtype) if pieces else expected
        if produced is not expected:
            raise InternalError(
                f"output '{name}' is of {'no type that we have' if produced is None else produced.config_name}, the "
                f"configuration says {expected.config_name}"
            )
        return pieces

    def _joined(self, name: str, rows: _Samples) -> Array:
        if name in self._split:
            return np.concatenate(list(rows))
        if not isinstance(rows, np.ndarray) and any(row.shape != rows[0].shape for row in rows):
            raise InternalError(f"the samples of output '{name}' of one request must have one shape")
        array = rows if isinstance(rows, np.ndarray) else np.stack(rows)
        # What DALI calls a scalar is a row of one value.
        return array.reshape(-1, 1) if array.ndim == 1 and name in self._scalars else array


def _samples(batch: Batch, name: str) -> _Samples:
    arrays: list[Array] = []
    for request in batch.requests:
        if name not in request.inputs:
            raise InternalError(f"input '{name}' is missing from the batch")
        arrays.append(request.inputs[name].as_numpy())
    return arrays[0] if len(arrays) == 1 else [row for array in arrays for row in array]


def _on_host(output: Any) -> _Samples:
    """A copy of an output's samples, as `as_array` makes one: DALI uses their memory again for the next batch."""
    output = output.as_cpu() if hasattr(output, "as_cpu") else output
    if output.is_dense_tensor():
        array: Array = output.as_array()
        return array
    return [np.array(output.at(index)) for index in range(len(output))]
