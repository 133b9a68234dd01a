"""What Triton can do and Charonia cannot: said when a model is loaded, so that nothing is silently left out."""

import re

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError
from charonia_runtime.core.strategy import STRATEGY_PARAMETER

_LABEL_NAME = re.compile(r"[a-zA-Z0-9_]*", re.ASCII)
"""What may follow the `_` that makes a metric tag a Prometheus label."""


def refuse_unsupported(config: ModelConfig) -> None:
    """
    Raises UnsupportedError or InvalidArgumentError, naming the field, for what cannot be honoured.

    Settings that only other backends' hardware would use (CUDA graphs, secondary devices, pinned memory) are accepted
    and without effect, as they are in Triton.
    """
    strategy = config.parameters.get(STRATEGY_PARAMETER, "")
    if strategy and not strategy.endswith(".py"):
        raise UnsupportedError(
            f"'parameters[\"{STRATEGY_PARAMETER}\"]' of model '{config.name}' names the library '{strategy}': shared "
            "libraries are not supported, name a .py file with a class BatchStrategy"
        )
    if config.platform == "tensorrt_plan":  # other platforms must not have these at all: `validate_tensors`
        _refuse_tensorrt_tensors(config)
    for tag in config.metric_tags:
        if not _LABEL_NAME.fullmatch(tag):
            raise InvalidArgumentError(
                f"'metric_tags[\"{tag}\"]' of model '{config.name}' is no label for metrics: only letters, digits and "
                "underscores are accepted"
            )


def _refuse_tensorrt_tensors(config: ModelConfig) -> None:
    for member, specs in (("input", config.inputs), ("output", config.outputs)):
        for index, spec in enumerate(specs):
            if spec.is_non_linear_format or spec.is_shape_tensor:
                flag = "is_shape_tensor" if spec.is_shape_tensor else "is_non_linear_format_io"
                raise UnsupportedError(
                    f"'{member}[{index}].{flag}' of model '{config.name}' is true: TensorRT's tensors are not supported"
                )
