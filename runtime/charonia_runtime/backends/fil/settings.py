"""The parameters of a tree model's configuration as values."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError

MODEL_FILES: Mapping[str, str] = {
    "xgboost": "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}
"""`model_type` → the file's name unless the configuration names it."""
MODEL_TYPE, IS_CLASSIFIER, OUTPUT_CLASS = "model_type", "is_classifier", "output_class"
_TYPES = {filename: model_type for model_type, filename in MODEL_FILES.items()}
_LAYOUTS = frozenset({"depth_first", "breadth_first", "layered"})
_REMOVED = ("algo", "storage_type", "blocks_per_sm", "threads_per_tree")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """`threads` of 0 leaves it to the size of a batch."""

    model_type: str = "xgboost"
    is_classifier: bool = False
    predict_proba: bool = False
    threshold: float = 0.5
    allow_unknown_field: bool = False
    threads: int = 0


def read_settings(parameters: Mapping[str, str], model: str, filename: str = "") -> Settings:
    """
    `filename` tells the format where the parameters do not: each has a name of its own.

    Raises InvalidArgumentError for a value that is malformed or missing, UnsupportedError for an unknown format.
    """
    for name in _REMOVED:
        if name in parameters:
            _logger.warning("parameter '%s' of model '%s' has no effect any more", name, model)
    model_type = parameters.get(MODEL_TYPE) or _TYPES.get(filename, "xgboost")
    if model_type not in MODEL_FILES:
        raise UnsupportedError(f"{model_type} not recognized as a valid serialization format.")
    layout = parameters.get("layout", "depth_first")
    if layout not in _LAYOUTS:
        raise InvalidArgumentError(f"Unknown nvForest layout name: {layout}")
    classifier = OUTPUT_CLASS if IS_CLASSIFIER not in parameters else IS_CLASSIFIER
    if classifier not in parameters:
        raise InvalidArgumentError("Required parameter is_classifier not found in config")
    return Settings(
        model_type=model_type,
        is_classifier=_boolean(parameters, classifier),
        predict_proba=_boolean(parameters, "predict_proba"),
        threshold=_number(parameters, "threshold", 0.5),
        allow_unknown_field=_boolean(parameters, "xgboost_allow_unknown_field"),
        threads=max(int(_number(parameters, "cpu_nthread", 0)), 0),
    )


def _boolean(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name, "false")
    if text not in {"true", "false"}:
        raise InvalidArgumentError(f"Expected 'true' or 'false' for parameter '{name}', got: '{text}'")
    return text == "true"


def _number(parameters: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(parameters.get(name, default))
    except ValueError as error:
        raise InvalidArgumentError(f"Bad input for parameter {name}") from error
