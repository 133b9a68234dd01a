"""CUDA graphs: executions that are recorded once, and then launched by one call instead of one for each kernel."""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charonia_runtime.core.config import CudaGraphSpec
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.cuda.runtime import Cuda, Stream

logger = logging.getLogger(__name__)

_MOST: Final = 64
"""Graphs of one instance. Beyond that executions run as they are: shapes that vary freely would be recorded forever."""


@dataclass(slots=True)
class Recorded:
    """One graph. It reads and writes the memory at `addresses`, as when it was recorded."""

    executable: Any
    addresses: Mapping[str, int]
    output_shapes: Mapping[str, tuple[int, ...]]


class Graphs:
    """
    The recorded executions of one instance, by whatever makes two executions the same (profile, shapes, values).

    An execution is recorded when it has run twice; those that the configuration names run when the model is loaded.
    When recording fails, the model does without.
    """

    def __init__(self, cuda: Cuda, stream: Stream, instance: str) -> None:
        self._cuda = cuda
        self._stream = stream
        self._instance = instance
        self._recorded: dict[Hashable, Recorded] = {}
        self._seen: set[Hashable] = set()
        self._usable = True

    def find(self, key: Hashable, inputs: Mapping[str, int]) -> Recorded | None:
        """The graph for `key`, if its inputs still lie where they did."""
        recorded = self._recorded.get(key)
        if recorded is None or any(recorded.addresses[name] != address for name, address in inputs.items()):
            return None
        return recorded

    def is_due(self, key: Hashable) -> bool:
        """Whether the execution that has just run should be recorded; notes that it ran."""
        if not self._usable or (key not in self._recorded and len(self._recorded) >= _MOST):
            return False
        if key in self._seen:
            return True
        if len(self._seen) < 16 * _MOST:
            self._seen.add(key)
        return False

    def record(
        self,
        key: Hashable,
        enqueue: Callable[[], None],
        addresses: Mapping[str, int],
        output_shapes: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Record what `enqueue` puts into the stream, which must be idle."""
        try:
            executable = self._capture(enqueue)
        except InferenceError as error:
            self._usable = False
            logger.warning("%s: CUDA graphs cannot be recorded, executions run without: %s", self._instance, error)
            return
        self._drop(key)
        self._recorded[key] = Recorded(executable, dict(addresses), dict(output_shapes))

    def launch(self, recorded: Recorded) -> None:
        self._cuda.launch(recorded.executable, self._stream)

    def close(self) -> None:
        for key in list(self._recorded):
            self._drop(key)

    def _capture(self, enqueue: Callable[[], None]) -> Any:
        self._cuda.begin_capture(self._stream)
        try:
            enqueue()
        except InferenceError:
            # A stream stays in its recording until that is ended, whatever became of it.
            try:
                self._cuda.destroy_graph(self._cuda.end_capture(self._stream))
            except InferenceError as error:
                logger.debug("%s: the recording was lost: %s", self._instance, error)
            raise
        return self._cuda.end_capture(self._stream)

    def _drop(self, key: Hashable) -> None:
        recorded = self._recorded.pop(key, None)
        if recorded is not None:
            self._cuda.destroy_graph(recorded.executable)


def padded_rows(specs: Sequence[CudaGraphSpec], rows: int, shapes: Mapping[str, Sequence[int]]) -> int | None:
    """
    The rows of the smallest configured graph that takes a batch of `rows`; None where there is none.

    Its inputs must have the dims that `shapes` have behind the rows.
    """
    fitting = [
        spec.batch_size
        for spec in specs
        if (spec.batch_size if spec.lowest_batch_size is None else spec.lowest_batch_size) <= rows <= spec.batch_size
        and all(tuple(shapes.get(name, ())[1:]) == dims for name, dims in spec.inputs.items())
    ]
    return min(fitting, default=None)
