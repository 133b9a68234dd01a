"""The graph of an ensemble, and for each set of requested outputs the part of it that must run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.scheduling import Ensemble

_REMEMBERED_PLANS = 64
"""More sets of requested outputs than that are planned anew each time."""


@dataclass(frozen=True, slots=True)
class Step:
    """One model of the ensemble. `index` is its place in the configuration."""

    index: int
    inputs: tuple[tuple[str, str], ...]
    """The model's inputs, each with the ensemble's tensor that it reads."""
    outputs: Mapping[str, str]
    """The model's output → the ensemble's tensor that it writes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs for one set of requested outputs."""

    outputs: tuple[str, ...]
    """The requested outputs, in the configuration's order."""
    steps: tuple[Step, ...]
    readers: Mapping[str, tuple[Step, ...]]
    """Tensor → the steps that read it; tensors that nobody reads are absent."""
    uses: Mapping[str, int]
    """Tensor → how often it is read, the answer included; it can be let go after that."""


class EnsembleGraph:
    """The steps of one ensemble. Plans are made once and kept."""

    __slots__ = ("_all_outputs", "_plans", "_producers", "steps")

    def __init__(self, config: ModelConfig, ensemble: Ensemble) -> None:
        self.steps = tuple(
            Step(index, tuple(step.input_map.items()), dict(step.output_map))
            for index, step in enumerate(ensemble.steps)
        )
        self._all_outputs = tuple(spec.name for spec in config.outputs)
        self._producers = {tensor: step for step in self.steps for tensor in step.outputs.values()}
        self._plans: dict[frozenset[str], Plan] = {}

    def producer(self, tensor: str) -> Step | None:
        """The step that writes `tensor`; None for the ensemble's own inputs."""
        return self._producers.get(tensor)

    def readers(self, tensor: str) -> list[Step]:
        """The steps that read `tensor`."""
        return [step for step in self.steps if any(tensor == outer for _, outer in step.inputs)]

    def is_output(self, tensor: str) -> bool:
        """Whether clients may ask for `tensor`."""
        return tensor in self._all_outputs

    def plan(self, requested: Iterable[str]) -> Plan:
        """What runs for these outputs, or for all of them where none is named."""
        key = frozenset(requested)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _REMEMBERED_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._make_plan(key)
        return plan

    def _make_plan(self, requested: frozenset[str]) -> Plan:
        outputs = tuple(name for name in self._all_outputs if not requested or name in requested)
        steps = self._needed(outputs)
        readers: dict[str, tuple[Step, ...]] = {}
        for step in steps:
            for tensor in {tensor: None for _, tensor in step.inputs}:
                readers[tensor] = (*readers.get(tensor, ()), step)
        uses = {tensor: len(reading) for tensor, reading in readers.items()}
        for output in outputs:
            uses[output] = uses.get(output, 0) + 1
        return Plan(outputs, steps, readers, uses)

    def _needed(self, outputs: Iterable[str]) -> tuple[Step, ...]:
        """The steps that these outputs depend on, in the configuration's order."""
        needed: set[int] = set()
        tensors = list(outputs)
        while tensors:
            step = self._producers.get(tensors.pop())
            if step is not None and step.index not in needed:
                needed.add(step.index)
                tensors += [tensor for _, tensor in step.inputs]
        return tuple(step for step in self.steps if step.index in needed)
