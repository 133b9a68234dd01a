"""Rules of ensembles: what must not be configured, and a graph of tensors in which each is written and read."""

from dataclasses import dataclass, field

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.platforms import ENSEMBLE
from charonia_runtime.core.scheduling import Ensemble, EnsembleStep


@dataclass(slots=True, eq=False)
class _Tensor:
    """A node of the graph; `sources` are the tensors it is computed from, `targets` those computed from it."""

    name: str
    written: bool = False
    ready: bool = False
    sources: list["_Tensor"] = field(default_factory=list)
    targets: list["_Tensor"] = field(default_factory=list)


_Graph = dict[str, _Tensor]


def check_ensemble(config: ModelConfig, ensemble: Ensemble) -> None:
    """Raises InvalidArgumentError for settings that ensembles cannot have and tensors that lead nowhere."""
    _check_settings(config, ensemble)
    graph = _graph_of(config.name, ensemble)
    _spread_readiness(config, graph)
    for output in config.outputs:
        _check_output(config.name, output.name, graph)
    outputs = {output.name for output in config.outputs}
    for tensor in graph.values():
        if tensor.name not in outputs and not (tensor.ready and tensor.targets):
            raise InvalidArgumentError(f"ensemble tensor '{tensor.name}' is unused in ensemble '{config.name}'")


def _check_settings(config: ModelConfig, ensemble: Ensemble) -> None:
    name = config.name
    if config.platform != ENSEMBLE:
        raise InvalidArgumentError(
            f"ensemble scheduling cannot be set for model '{name}' whose platform is not {ENSEMBLE}"
        )
    if config.instance_groups:
        raise InvalidArgumentError(f"instance group should not be specified for ensemble '{name}'")
    if "optimization" in config.document:
        raise InvalidArgumentError(f"optimization should not be specified for ensemble '{name}'")
    if config.warmup:
        raise InvalidArgumentError(f"model_warmup can not be specified for ensemble '{name}'")
    if not ensemble.steps:
        raise InvalidArgumentError(f"must specify 'step' for ensemble '{name}'")


def _graph_of(name: str, ensemble: Ensemble) -> _Graph:
    graph: _Graph = {}
    for index, step in enumerate(ensemble.steps):
        _check_step(name, index, step)
        written = [_written(graph, tensor, f"'{name}' step {index}") for tensor in step.output_map.values()]
        for tensor in step.input_map.values():
            source = graph.setdefault(tensor, _Tensor(tensor))
            source.targets.extend(written)
            for target in written:
                target.sources.append(source)
    return graph


def _check_step(name: str, index: int, step: EnsembleStep) -> None:
    for member in ("model_name", "input_map", "output_map"):
        if not getattr(step, member):
            raise InvalidArgumentError(f"must specify '{member}' in step {index} of ensemble '{name}'")


def _written(graph: _Graph, name: str, step: str) -> _Tensor:
    tensor = graph.setdefault(name, _Tensor(name))
    if tensor.written:
        raise InvalidArgumentError(
            f"ensemble tensor '{name}' can appear in an output map only once for ensemble {step}"
        )
    tensor.written = True
    return tensor


def _spread_readiness(config: ModelConfig, graph: _Graph) -> None:
    """Mark what can be computed, beginning with the ensemble's inputs."""
    waiting = []
    for spec in config.inputs:
        if spec.name not in graph:
            # the quote that closes nothing is in Triton's text
            raise InvalidArgumentError(f"ensemble input '{spec.name}' for ensemble {config.name}' is not used")
        graph[spec.name].ready = True
        waiting.append(graph[spec.name])
    while waiting:
        for target in waiting.pop().targets:
            if not target.ready and all(source.ready for source in target.sources):
                target.ready = True
                waiting.append(target)


def _check_output(name: str, output: str, graph: _Graph) -> None:
    tensor = graph.get(output)
    if tensor is None:
        raise InvalidArgumentError(f"ensemble output '{output}' for ensemble {name}' is not used")
    if tensor.ready:
        return
    origin = _first_unready(tensor)
    because = "" if origin is tensor else (
        f": at least one of its depending tensors, '{origin.name}', is not connected"
    )  # fmt: skip
    raise InvalidArgumentError(f"output '{output}' for ensemble '{name}' is not written{because}")


def _first_unready(tensor: _Tensor) -> _Tensor:
    """The tensor, maybe `tensor` itself, where computing it comes to a halt; circles are gone round once."""
    seen: set[str] = set()
    while True:
        unready = (source for source in tensor.sources if not source.ready and source.name not in seen)
        source = next(unready, None)
        if source is None:
            return tensor
        seen.add(source.name)
        tensor = source
