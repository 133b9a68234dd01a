"""The rules that a configuration must keep before its model counts as one of the repository's."""

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.platforms import ENSEMBLE, PLATFORMS_OF_BACKEND
from charonia_runtime.core.scheduling import DynamicBatching, Ensemble, SequenceBatching
from charonia_runtime.core.validation.batching import check_dynamic_batching
from charonia_runtime.core.validation.ensemble import check_ensemble
from charonia_runtime.core.validation.sequence import check_sequence_batching


def validate_config(config: ModelConfig, directory_name: str) -> None:
    """Raises InvalidArgumentError with the text of the first rule that a completed configuration breaks."""
    _check_backend(config)
    if config.max_batch_size < 0:
        raise InvalidArgumentError(f"'max_batch_size' must be non-negative value for {config.name}")
    _check_scheduling(config)
    if config.decoupled and config.response_cache:
        raise InvalidArgumentError(
            f"Response Cache does not currently support model {config.name} with 'decoupled' transaction policy. "
            "Please disable the response cache."
        )
    _check_metrics(config)
    if config.name != directory_name:
        raise InvalidArgumentError(
            f"unexpected directory name '{directory_name}' for model '{config.name}', directory name must equal "
            "model name"
        )


def _check_backend(config: ModelConfig) -> None:
    if not config.backend and config.platform != ENSEMBLE:
        raise InvalidArgumentError(f"unexpected platform type '{config.platform}' for {config.name}")
    if config.backend and config.platform == ENSEMBLE:
        raise InvalidArgumentError(
            f"Ensemble model '{config.name}' must have platform type '{ENSEMBLE}' and empty backend type"
        )
    platforms = PLATFORMS_OF_BACKEND.get(config.backend)
    if platforms is not None and config.platform not in platforms:
        raise InvalidArgumentError(f"unexpected 'platform' and 'backend' pair, got:{config.platform}, {config.backend}")


def _check_scheduling(config: ModelConfig) -> None:
    match config.scheduling:
        case DynamicBatching() as batching:
            check_dynamic_batching(config, batching)
        case SequenceBatching() as batching:
            check_sequence_batching(config, batching)
        case Ensemble() as ensemble:
            check_ensemble(config, ensemble)
            return
        case _:
            pass
    if config.platform == ENSEMBLE:
        raise InvalidArgumentError(
            f"ensemble scheduling must be set for ensemble {config.name} whose platform is {ENSEMBLE}"
        )


def _check_metrics(config: ModelConfig) -> None:
    for control in config.document.get("model_metrics", {}).get("metric_control", ()):
        if "metric_identifier" not in control:
            raise InvalidArgumentError("metric control must specify 'metric_identifier'")
        if not control["metric_identifier"].get("family"):
            raise InvalidArgumentError("metric identifier must specify non-empty 'family'")
        if "histogram_options" not in control:
            raise InvalidArgumentError("metric control must specify 'histogram_options'")
        if not control["histogram_options"].get("buckets"):
            raise InvalidArgumentError("histogram options must specify non-empty 'buckets'")
