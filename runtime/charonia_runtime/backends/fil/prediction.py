"""What treelite predicts → what clients get: classes, probabilities or values."""

from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.backends.fil.settings import Settings


def columns_of(settings: Settings, scores: int, configured: int) -> int:
    """Values that each row gets of a model with so many `scores`; `configured` is what the output has room for."""
    if not settings.is_classifier:
        return scores
    if not settings.predict_proba:
        return 1
    return 2 if scores == 1 and configured == 2 else scores


def answer(scores: npt.NDArray[Any], settings: Settings, columns: int) -> npt.NDArray[np.float32]:
    """`scores`, as [rows, scores], to [rows, columns] in FP32."""
    scores = scores.astype(np.float32, copy=False)
    classes: npt.NDArray[np.float32]
    if not settings.is_classifier:
        return scores
    if settings.predict_proba:
        return np.hstack([1 - scores, scores]) if scores.shape[1] < columns else scores
    if scores.shape[1] == 1:
        classes = (scores > settings.threshold).astype(np.float32)
        return classes
    # Scores that are not positive never win over class 0, as in Triton.
    classes = np.argmax(np.maximum(scores, 0), axis=1).astype(np.float32)
    return classes.reshape(-1, 1)
