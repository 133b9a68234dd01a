"""Whether an ensemble fits the models that it is made of, in Triton's words."""

from collections.abc import Mapping
from dataclasses import dataclass

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import Ensemble, EnsembleStep
from charonia_runtime.core.shapes import full_backend_shape
from charonia_runtime.core.tensor import shape_text
from charonia_runtime.engine.ensembles.shapes import fits

_NO_ORIGIN = -1
"""The origin of tensors that no decoupled step has a part in."""


@dataclass(frozen=True, slots=True)
class _Inferred:
    """What one model says of a tensor of the ensemble."""

    model: str
    datatype: DataType
    dims: tuple[int, ...]
    full_dims: tuple[int, ...]

    @classmethod
    def of(cls, config: ModelConfig, spec: TensorSpec) -> "_Inferred":
        """The tensor as clients of `config` see it."""
        return cls(config.name, spec.datatype, spec.dims, config.full_shape(spec))

    @classmethod
    def inside(cls, config: ModelConfig, spec: TensorSpec) -> "_Inferred":
        """The tensor as the steps of the ensemble `config` see it: after its `reshape`."""
        return cls(config.name, spec.datatype, spec.backend_dims, full_backend_shape(config, spec))


def check_composition(config: ModelConfig, ensemble: Ensemble, models: Mapping[str, ModelConfig]) -> None:
    """
    Compare the ensemble with the completed configurations of its models. Raises InvalidArgumentError.

    `models` has every model that a step names.
    """
    check = _Check(config)
    for step in ensemble.steps:
        check.step(step, models[step.model_name])
    _check_origins(config, ensemble, models)


def is_decoupled(ensemble: Ensemble, models: Mapping[str, ModelConfig]) -> bool:
    """Whether the ensemble may answer a request any number of times."""
    return any(models[step.model_name].decoupled for step in ensemble.steps)


class _Check:
    """What was inferred of the ensemble's tensors so far."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._inferred = {spec.name: _Inferred.inside(config, spec) for spec in (*config.inputs, *config.outputs)}

    def step(self, step: EnsembleStep, model: ModelConfig) -> None:
        ensemble, name = self._config, step.model_name
        if model.batches and model.max_batch_size < ensemble.max_batch_size:
            raise InvalidArgumentError(
                f"ensemble {ensemble.name} allows maximum batch size {ensemble.max_batch_size}, but it contains model "
                f"{name} which only allows maximum batch size to be {model.max_batch_size}"
            )
        for inner, outer in step.input_map.items():
            if model.input(inner) is None:
                raise self._refused(f"ensemble tensor {outer} is mapping to non-existing input {inner} in model {name}")
        for spec in model.inputs:
            if spec.name in step.input_map:
                self._compare(step.input_map[spec.name], _Inferred.of(model, spec))
            elif not spec.optional:
                raise self._refused(f"input {spec.name} in model {name} is not mapped to any ensemble tensors")
        for inner, outer in step.output_map.items():
            output = model.output(inner)
            if output is None:
                raise self._refused(
                    f"ensemble tensor {outer} is mapped from non-existing output {inner} in model {name}"
                )
            self._compare(outer, _Inferred.of(model, output))

    def _compare(self, tensor: str, one: _Inferred) -> None:
        """The first model that says something of a tensor is right."""
        first = self._inferred.setdefault(tensor, one)
        if first.datatype is not one.datatype:
            what, texts = "data type", (first.datatype.config_name, one.datatype.config_name)
        elif not fits(first.dims, one.dims) and not fits(first.full_dims, one.full_dims):
            what, texts = "shape", (shape_text(first.full_dims), shape_text(one.full_dims))
        else:
            return
        raise self._refused(
            f"ensemble tensor {tensor}: inconsistent {what}: {texts[0]} is inferred from model {first.model} while "
            f"{texts[1]} is inferred from model {one.model}"
        )

    def _refused(self, text: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"in ensemble {self._config.name}, {text}")


def _check_origins(config: ModelConfig, ensemble: Ensemble, models: Mapping[str, ModelConfig]) -> None:
    """What meets in a step, or in an answer, must come from the same responses of the same decoupled step."""
    origins = {spec.name: _NO_ORIGIN for spec in config.inputs}
    waiting = list(enumerate(ensemble.steps))
    while waiting:
        ready = [(index, step) for index, step in waiting if all(name in origins for name in step.input_map.values())]
        if not ready:
            return
        for index, step in ready:
            origin = _common_origin(config.name, [origins[name] for name in step.input_map.values()])
            if models[step.model_name].decoupled:
                origin = index
            origins |= dict.fromkeys(step.output_map.values(), origin)
        waiting = [one for one in waiting if one not in ready]
    _common_origin(config.name, [origins[spec.name] for spec in config.outputs if spec.name in origins])


def _common_origin(ensemble: str, origins: list[int]) -> int:
    if len(set(origins)) > 1:
        raise InvalidArgumentError(
            # Triton names the ensemble where it says model
            f"in ensemble {ensemble}, step of model '{ensemble}' receives inputs originated from different decoupled "
            "models"
        )
    return origins[0] if origins else _NO_ORIGIN
