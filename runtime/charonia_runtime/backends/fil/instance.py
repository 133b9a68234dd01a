"""One instance: the rows of a batch through the trees."""

from typing import Any

import numpy as np

from charonia_runtime.backends.fil.checks import INPUT, OUTPUT
from charonia_runtime.backends.fil.prediction import answer, columns_of
from charonia_runtime.backends.fil.settings import Settings
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InternalError

_FEW_ROWS = 32
"""Up to here waking other threads costs more than they help."""


class Instance:
    """Runs one batch at a time on trees that others share. treelite lets go of the GIL while it runs."""

    def __init__(self, treelite: Any, trees: Any, config: ModelConfig, settings: Settings, scores: int) -> None:
        self._predict = treelite.gtil.predict
        self._trees = trees
        self._settings = settings
        (output,) = config.outputs
        # As in Triton, dimensions of 1 are left out of the answer.
        self._dims = tuple(size for size in output.backend_dims if size != 1)
        self._scores = scores
        self._columns = columns_of(settings, scores, int(np.prod(output.backend_dims)))

    def execute(self, batch: Batch) -> None:
        rows = batch.gather(INPUT)
        if rows is None:
            raise InternalError(f"input '{INPUT}' is missing from the batch")
        batch.mark_inputs_ready()
        threads = self._settings.threads or (1 if len(rows) <= _FEW_ROWS else -1)
        try:
            scores = self._predict(self._trees, rows, nthread=threads)
        except Exception as error:
            raise InternalError(f"treelite failed: {error}") from error
        batch.mark_outputs_ready()
        made = answer(scores.reshape(len(rows), self._scores), self._settings, self._columns)
        batch.scatter({OUTPUT: made.reshape(len(rows), *self._dims)})

    def close(self) -> None:
        self._trees = None
