"""Auto-complete: what trees tell and the configuration leaves open. Triton leaves all of it to the configuration."""

from dataclasses import replace
from typing import Any

from charonia_runtime.backends.fil.checks import INPUT, OUTPUT
from charonia_runtime.backends.fil.prediction import columns_of
from charonia_runtime.backends.fil.settings import IS_CLASSIFIER, MODEL_TYPE, OUTPUT_CLASS, Settings
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.scheduling import Direct, DynamicBatching

_CLASSIFIERS = frozenset({0, 2})
"""treelite's tasks that tell classes apart: two of them, more of them."""


def complete_from_trees(
    config: ModelConfig, trees: Any, settings: Settings, default_max_batch_size: int
) -> ModelConfig:
    """Fill in the input, the output, max_batch_size, the scheduling choice, and the parameters that all models need."""
    scores = int(trees.get_header_accessor().get_field("num_class")[0])
    if not config.batches:
        config = replace(config, max_batch_size=max(default_max_batch_size, 1))
    if config.max_batch_size > 1 and isinstance(config.scheduling, Direct):
        config = replace(config, scheduling=DynamicBatching())
    if not config.inputs:
        config = replace(config, inputs=(TensorSpec(INPUT, DataType.FP32, (int(trees.num_feature),)),))
    if not config.outputs:
        columns = columns_of(settings, scores, scores)
        config = replace(config, outputs=(TensorSpec(OUTPUT, DataType.FP32, (columns,)),))
    told = {MODEL_TYPE: settings.model_type}
    if not {IS_CLASSIFIER, OUTPUT_CLASS} & config.parameters.keys():
        told[IS_CLASSIFIER] = str(settings.is_classifier).lower()
    return replace(config, parameters=told | dict(config.parameters))


def tells_classes_apart(trees: Any) -> bool:
    """Whether the trees were trained to do that."""
    return int(trees.get_header_accessor().get_field("task_type")[0]) in _CLASSIFIERS
