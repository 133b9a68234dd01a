"""Parameters of tree models."""

import logging

import pytest

from charonia_runtime.backends.fil.settings import Settings, read_settings
from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"is_classifier": "false"}, Settings()),
        ({"output_class": "true"}, Settings(is_classifier=True)),
        ({"is_classifier": "true", "output_class": "false"}, Settings(is_classifier=True)),
        ({"is_classifier": "true", "predict_proba": "true"}, Settings(is_classifier=True, predict_proba=True)),
        ({"is_classifier": "true", "threshold": "0.25"}, Settings(is_classifier=True, threshold=0.25)),
        ({"is_classifier": "false", "model_type": "lightgbm"}, Settings(model_type="lightgbm")),
        ({"is_classifier": "false", "xgboost_allow_unknown_field": "true"}, Settings(allow_unknown_field=True)),
        ({"is_classifier": "false", "cpu_nthread": "3"}, Settings(threads=3)),
    ],
)
def test_each_parameter(given: dict[str, str], read: Settings) -> None:
    assert read_settings(given, "m") == read


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({}, InvalidArgumentError, "Required parameter is_classifier not found in config"),
        (
            {"is_classifier": "True"},
            InvalidArgumentError,
            "Expected 'true' or 'false' for parameter 'is_classifier', got: 'True'",
        ),
        ({"is_classifier": "true", "threshold": "half"}, InvalidArgumentError, "Bad input for parameter threshold"),
        ({"model_type": "h2o"}, UnsupportedError, "h2o not recognized as a valid serialization format."),
        ({"layout": "sideways"}, InvalidArgumentError, "Unknown nvForest layout name: sideways"),
    ],
)
def test_what_cannot_be_read(given: dict[str, str], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        read_settings(given, "m")
    assert str(caught.value) == text


def test_what_has_no_effect_any_more_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_settings({"is_classifier": "false", "storage_type": "AUTO"}, "m")
    assert "'storage_type'" in caplog.text
