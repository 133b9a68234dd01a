"""Finds the copies of the models that an ensemble is made of, and checks that they fit."""

from collections.abc import Mapping
from dataclasses import replace

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import ANY_VERSION
from charonia_runtime.core.scheduling import Ensemble, EnsembleStep
from charonia_runtime.engine.ensembles.composition import check_composition, is_decoupled
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.registry import ModelRegistry
from charonia_runtime.protocols.model_config import complete


def composing_models(config: ModelConfig) -> tuple[str, ...]:
    """The identifiers of the models that the steps mean, each once; none for anything but an ensemble."""
    scheduling = config.scheduling
    if not isinstance(scheduling, Ensemble):
        return ()
    return tuple({step.identifier: None for step in scheduling.steps})


def bind(
    config: ModelConfig, ensemble: Ensemble, registry: ModelRegistry, failures: Mapping[str, str]
) -> tuple[ModelConfig, tuple[ModelCopy, ...]]:
    """
    The ensemble's final configuration, and the copy that serves now for each of its steps.

    `failures` has the reason for each model whose last load failed. Raises InvalidArgumentError with Triton's text.
    """
    name = config.name
    ready = {model: registry.ready(model) for model in composing_models(config)}
    missing = [model for model, copies in ready.items() if not copies and model not in failures]
    if missing:
        raise InvalidArgumentError(
            f"ensemble {name} contains models that are not available or ambiguous: {', '.join(missing)}"
        )
    copies = tuple(_bind_step(name, step, ready[step.identifier], failures) for step in ensemble.steps)
    models = {step.model_name: copy.config for step, copy in zip(ensemble.steps, copies, strict=True)}
    check_composition(config, ensemble, models)
    return complete(replace(config, decoupled=is_decoupled(ensemble, models))), copies


def _bind_step(
    name: str, step: EnsembleStep, ready: Mapping[int, ModelCopy], failures: Mapping[str, str]
) -> ModelCopy:  # fmt: skip
    model, version = step.identifier, step.model_version
    if not ready:
        raise InvalidArgumentError(
            f"ensemble '{name}' depends on '{model}' which has no loaded version. Model '{model}' loading failed with "
            f"error: {failures[model]}"
        )
    if version == ANY_VERSION:
        return ready[max(ready)]
    if version not in ready:
        raise InvalidArgumentError(
            f"ensemble '{name}' depends on '{model}' whose required version {version} is not loaded."
        )
    return ready[version]
