"""Load-time checks of a configuration against the trees."""

from collections.abc import Sequence
from math import prod

from charonia_runtime.backends.fil.prediction import columns_of
from charonia_runtime.backends.fil.settings import Settings
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError

INPUT = "input__0"
OUTPUT = "output__0"
SHAP = "treeshap_output"


def check_configuration(config: ModelConfig, settings: Settings, features: int, scores: int) -> None:
    """Raises InvalidArgumentError for tensors that trees do not have, or not in this shape."""
    if not config.batches:
        raise InvalidArgumentError(f"model '{config.name}': max_batch_size must be greater than 0 for the fil backend")
    _check_names(config, "input", config.inputs, [INPUT])
    _check_names(config, "output", config.outputs, [OUTPUT, SHAP] if config.output(SHAP) else [OUTPUT])
    given, output = config.inputs[0], config.output(OUTPUT)
    # The number must be right: treelite does not check how many values a row has.
    if given.backend_dims != (features,):
        raise InvalidArgumentError(
            f"model '{config.name}': input '{INPUT}' must have dims [ {features} ], the number of the model's features"
        )
    room = prod(output.backend_dims) if output else 0
    columns = columns_of(settings, scores, room)
    if room != columns:
        raise InvalidArgumentError(
            f"model '{config.name}': output '{OUTPUT}' must have dims [ {columns} ], what the model gives for each row"
        )
    explained = config.output(SHAP)
    if explained and prod(explained.backend_dims) != scores * (features + 1):
        dims = f"{features + 1}" if scores == 1 else f"{scores}, {features + 1}"
        raise InvalidArgumentError(
            f"model '{config.name}': output '{SHAP}' must have dims [ {dims} ], a value for each feature and their mean"
        )


def _check_names(config: ModelConfig, role: str, specs: Sequence[TensorSpec], names: Sequence[str]) -> None:
    if sorted(spec.name for spec in specs) != sorted(names) or any(
        spec.datatype is not DataType.FP32 for spec in specs
    ):
        further = f", besides '{SHAP}'" if len(names) > 1 else ""
        raise InvalidArgumentError(
            f"model '{config.name}': the fil backend has one {role}, '{names[0]}' of data_type TYPE_FP32{further}"
        )
