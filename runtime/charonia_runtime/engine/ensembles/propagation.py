"""How the tensors of one request spread through an ensemble: which steps may run, which answers are complete. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from charonia_runtime.core.request import SequenceId
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.ensembles.graph import Plan, Step

Lineage = tuple[int, ...]
"""
Which responses of decoupled steps a tensor comes from, outermost first: empty for none, (2,) for what was made of a
decoupled step's third response. Tensors meet in a step, or in an answer, only when their lineages are equal.
"""


@dataclass(slots=True)
class Value:
    """What became of one tensor of the ensemble."""

    tensor: Tensor | None
    """None for an optional input that was not given and for an output that its model did not make."""
    batched: bool
    """Whether its first dimension is a batch's, because the model that made it batches."""
    sequence: SequenceId | None = None
    """The sequence that the models on its way put in place of the request's; None while none did."""
    given: bool = False
    """Whether it is an input of the ensemble, not made by a step."""


@dataclass(slots=True, eq=False)
class StepRun:
    """One execution of a step, with everything that it reads."""

    step: Step
    lineage: Lineage
    inputs: list[tuple[str, Value]]
    """The model's inputs by name."""
    responses: int = 0
    """How many responses it gave so far."""

    def next_lineage(self, *, decoupled: bool) -> Lineage:
        """That of its next response."""
        return (*self.lineage, self.responses) if decoupled else self.lineage

    @property
    def made_bytes(self) -> int:
        """Bytes of the inputs that steps made for it: they are kept until it has run."""
        return sum(value.tensor.byte_size for _, value in self.inputs if value.tensor is not None and not value.given)

    @property
    def sequence(self) -> SequenceId | None:
        """The sequence that its inputs bring along; the last one's where they differ."""
        found = None
        for _, value in self.inputs:
            found = value.sequence or found
        return found


@dataclass(slots=True)
class Progress:
    """What follows from a tensor's arrival."""

    runs: list[StepRun] = field(default_factory=list)
    """Steps that may run now. Each one given out must be ended by `Propagation.end`."""
    answers: list[list[tuple[str, Value]]] = field(default_factory=list)
    """Complete sets of the requested outputs, by name."""


class Propagation:
    """
    A state machine for one request. Every step of the plan runs once for each lineage that reaches it.

    Tensors are let go as soon as the last one that reads them was given out.
    """

    __slots__ = ("_outputs", "_plan", "_values", "running")

    def __init__(self, plan: Plan) -> None:
        self.running = 0
        """Step runs that were given out and have not ended."""
        self._plan = plan
        self._outputs = frozenset(plan.outputs)
        self._values: dict[Lineage, dict[str, tuple[Value, int]]] = {}
        """Lineage → tensor → its value and how often it will still be read."""

    def begin(self, inputs: Mapping[str, Value]) -> Progress:
        """The request's inputs arrive: every input of the ensemble must be there, if only with no tensor."""
        return self._arrive((), inputs)

    def receive(self, run: StepRun, values: Mapping[str, Value], *, decoupled: bool) -> Progress:
        """A response of `run` arrives, keyed by the ensemble's tensors; those that are missing were not made."""
        lineage = run.next_lineage(decoupled=decoupled)
        run.responses += 1
        complete = {tensor: values.get(tensor) or Value(None, batched=False) for tensor in run.step.outputs.values()}
        return self._arrive(lineage, complete)

    def end(self, run: StepRun) -> None:  # noqa: ARG002 - says whose end it is
        """`run` has no more responses."""
        self.running -= 1

    def _arrive(self, lineage: Lineage, values: Mapping[str, Value]) -> Progress:
        plan = self._plan
        present = self._values.setdefault(lineage, {})
        arrived = []
        for name, value in values.items():
            uses = plan.uses.get(name, 0)
            if uses:
                present[name] = (value, uses)
                arrived.append(name)
        progress = Progress()
        readers = {step.index: step for name in arrived for step in plan.readers.get(name, ())}
        for step in readers.values():
            if all(tensor in present for _, tensor in step.inputs):
                progress.runs.append(self._start(step, lineage, present))
        if not self._outputs.isdisjoint(arrived) and all(name in present for name in plan.outputs):
            progress.answers.append([(name, present[name][0]) for name in plan.outputs])
            self._release(plan.outputs, present)
        if not present:
            del self._values[lineage]
        return progress

    def _start(self, step: Step, lineage: Lineage, present: dict[str, tuple[Value, int]]) -> StepRun:
        run = StepRun(step, lineage, [(name, present[tensor][0]) for name, tensor in step.inputs])
        self._release({tensor for _, tensor in step.inputs}, present)
        self.running += 1
        return run

    @staticmethod
    def _release(names: Iterable[str], present: dict[str, tuple[Value, int]]) -> None:
        for name in names:
            value, uses = present[name]
            if uses == 1:
                del present[name]
            else:
                present[name] = (value, uses - 1)
