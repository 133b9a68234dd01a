"""Load-time checks of a configuration against the trees."""

from math import prod

from charonia_runtime.backends.fil.prediction import columns_of
from charonia_runtime.backends.fil.settings import Settings
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError

INPUT = "input__0"
OUTPUT = "output__0"
_SHAP = "treeshap_output"


def check_configuration(config: ModelConfig, settings: Settings, features: int, scores: int) -> None:
    """Raises InvalidArgumentError for tensors that trees do not have, UnsupportedError for Shapley values."""
    if not config.batches:
        raise InvalidArgumentError(f"model '{config.name}': max_batch_size must be greater than 0 for the fil backend")
    if config.output(_SHAP) is not None:
        raise UnsupportedError(f"model '{config.name}': output '{_SHAP}' is not supported")
    given = _only(config, "input", config.inputs, INPUT)
    # The number must be right: treelite does not check how many values a row has.
    if given.backend_dims != (features,):
        raise InvalidArgumentError(
            f"model '{config.name}': input '{INPUT}' must have dims [ {features} ], the number of the model's features"
        )
    output = _only(config, "output", config.outputs, OUTPUT)
    room = prod(output.backend_dims)
    columns = columns_of(settings, scores, room)
    if room != columns:
        raise InvalidArgumentError(
            f"model '{config.name}': output '{OUTPUT}' must have dims [ {columns} ], what the model gives for each row"
        )


def _only(config: ModelConfig, role: str, specs: tuple[TensorSpec, ...], name: str) -> TensorSpec:
    if [spec.name for spec in specs] != [name] or specs[0].datatype is not DataType.FP32:
        raise InvalidArgumentError(
            f"model '{config.name}': the fil backend has one {role}, '{name}' of data_type TYPE_FP32"
        )
    return specs[0]
