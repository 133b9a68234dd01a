"""One instance: the rows of a batch through the trees."""

from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.backends.fil.checks import INPUT, OUTPUT, SHAP
from charonia_runtime.backends.fil.prediction import answer, columns_of
from charonia_runtime.backends.fil.settings import Settings
from charonia_runtime.backends.fil.shap import Explainer
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InternalError

_FEW_ROWS = 32
"""Up to here waking other threads costs more than they help."""


class Instance:
    """Runs one batch at a time on trees that others share. treelite lets go of the GIL while it runs."""

    def __init__(
        self,
        treelite: Any,
        trees: Any,
        config: ModelConfig,
        settings: Settings,
        scores: int,
        *,
        explainer: Explainer | None = None,
    ) -> None:
        """`explainer` makes the Shapley values, where they are configured."""
        self._predict = treelite.gtil.predict
        self._trees = trees
        self._settings = settings
        dims = {spec.name: spec.backend_dims for spec in config.outputs}
        # As in Triton, dimensions of 1 are left out of the answer.
        self._dims = tuple(size for size in dims[OUTPUT] if size != 1)
        self._scores = scores
        self._columns = columns_of(settings, scores, int(np.prod(dims[OUTPUT])))
        self._explainer = explainer
        self._explained_dims = dims.get(SHAP, ())

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
        outputs: dict[str, npt.NDArray[Any]] = {}
        if self._explainer is not None and _is_wanted(batch, SHAP):
            outputs[SHAP] = self._explainer.explain(rows).reshape(len(rows), *self._explained_dims)
        batch.mark_outputs_ready()
        made = answer(scores.reshape(len(rows), self._scores), self._settings, self._columns)
        outputs[OUTPUT] = made.reshape(len(rows), *self._dims)
        batch.scatter(outputs)

    def close(self) -> None:
        self._trees = None
        self._explainer = None


def _is_wanted(batch: Batch, name: str) -> bool:
    """Whether any request asks for that output; one that names none asks for all."""
    return any(
        not request.outputs or any(output.name == name for output in request.outputs) for request in batch.requests
    )
