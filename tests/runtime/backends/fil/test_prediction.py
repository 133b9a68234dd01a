"""What becomes of scores."""

import numpy as np
import pytest

from charonia_runtime.backends.fil.prediction import answer, columns_of
from charonia_runtime.backends.fil.settings import Settings

CLASSES = Settings(is_classifier=True)
PROBABILITIES = Settings(is_classifier=True, predict_proba=True)


@pytest.mark.parametrize(
    ("settings", "scores", "configured", "columns"),
    [
        (Settings(), 1, 1, 1),
        (CLASSES, 3, 1, 1),
        (PROBABILITIES, 3, 3, 3),
        (PROBABILITIES, 1, 1, 1),
        (PROBABILITIES, 1, 2, 2),
    ],
)
def test_columns(settings: Settings, scores: int, configured: int, columns: int) -> None:
    assert columns_of(settings, scores, configured) == columns


@pytest.mark.parametrize(
    ("settings", "scores", "columns", "expected"),
    [
        (Settings(), [[2.5], [-1]], 1, [[2.5], [-1]]),
        (CLASSES, [[0.5], [0.75]], 1, [[0], [1]]),
        (Settings(is_classifier=True, threshold=0.8), [[0.75], [0.875]], 1, [[0], [1]]),
        (CLASSES, [[0.25, 0.5, 0.5], [-1, -2, 0], [-1, -2, 3]], 1, [[1], [0], [2]]),
        (PROBABILITIES, [[0.25]], 1, [[0.25]]),
        (PROBABILITIES, [[0.25]], 2, [[0.75, 0.25]]),
        (PROBABILITIES, [[0.25, 0.75]], 2, [[0.25, 0.75]]),
    ],
)
def test_answers(settings: Settings, scores: list[list[float]], columns: int, expected: list[list[float]]) -> None:
    made = answer(np.array(scores, np.float64), settings, columns)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, np.array(expected, np.float32))
