"""Random graphs, answered in random order: what must hold of every one of them."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.ensembles.graph import EnsembleGraph
from charonia_runtime.engine.ensembles.propagation import Propagation, Value
from tests.support.ensembles import an_ensemble

EMPTY = memoryview(b"")


def a_value(text: str) -> Value:
    return Value(Tensor(text, DataType.INT32, (0,), EMPTY), batched=True)


@st.composite
def graphs(draw):
    """Steps that read what comes before them; at most the first one is decoupled, so that everything has one origin."""
    inputs = ["X", "W"][: draw(st.integers(1, 2))]
    decoupled = draw(st.booleans())
    tensors = list(inputs)
    steps = []
    for index in range(draw(st.integers(1, 6))):
        made = [f"t{index}_{number}" for number in range(draw(st.integers(1, 2)))]
        pool = tensors if not decoupled or index == 0 else [name for name in tensors if name not in inputs]
        read = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True))
        steps.append((f"m{index}", {f"I{n}": name for n, name in enumerate(read)}, {name: name for name in made}))
        tensors += made
    made_tensors = [name for name in tensors if name not in inputs]
    outputs = draw(st.lists(st.sampled_from(made_tensors), min_size=1, max_size=3, unique=True))
    requested = draw(st.lists(st.sampled_from(outputs), unique=True))
    return inputs, steps, outputs, requested, decoupled


class Spreading(RuleBasedStateMachine):
    @initialize(graph=graphs())
    def begin(self, graph):
        inputs, steps, outputs, requested, self.decoupled = graph
        config = an_ensemble(steps, inputs, outputs)
        self.plan = EnsembleGraph(config, config.scheduling).plan(requested)
        self.wanted = [name for name in outputs if not requested or name in requested]
        self.machine = Propagation(self.plan)
        self.waiting = []
        self.started = Counter()
        self.answers = Counter()
        self.produced = 0
        self.take(self.machine.begin({name: a_value(f"{name}@()") for name in inputs}))

    def take(self, progress):
        for run in progress.runs:
            self.started[run.step.index, run.lineage] += 1
            for (name, value), (expected_name, tensor) in zip(run.inputs, run.step.inputs, strict=True):
                assert name == expected_name
                assert value.tensor is not None, "a step ran without its inputs"
                assert value.tensor.name == f"{tensor}@{run.lineage}", "a step read another lineage's tensor"
            self.waiting.append(run)
        for answer in progress.answers:
            lineages = {value.tensor.name.partition("@")[2] for _, value in answer}
            assert len(lineages) == 1, "an answer mixes what does not belong together"
            assert [name for name, _ in answer] == self.wanted
            self.answers[lineages.pop()] += 1

    def is_decoupled(self, run):
        return self.decoupled and run.step.index == 0

    @rule(data=st.data())
    @precondition(lambda self: self.waiting)
    def respond(self, data):
        run = data.draw(st.sampled_from(self.waiting))
        decoupled = self.is_decoupled(run)
        lineage = run.next_lineage(decoupled=decoupled)
        values = {name: a_value(f"{name}@{lineage}") for name in run.step.outputs.values()}
        if decoupled and self.produced == 5:
            self.end(run)
            return
        self.produced += decoupled
        progress = self.machine.receive(run, values, decoupled=decoupled)
        if not decoupled:
            self.end(run)
        self.take(progress)

    @rule()
    def wait(self):
        """Nothing happens; there is always something that may."""

    def end(self, run):
        self.waiting.remove(run)
        self.machine.end(run)

    @invariant()
    def nothing_runs_twice(self):
        if not hasattr(self, "machine"):
            return
        assert all(count == 1 for count in self.started.values())
        assert all(count == 1 for count in self.answers.values())
        assert self.machine.running == len(self.waiting)

    def teardown(self):
        """Answer whatever is left: then every lineage has its answer, and no tensor is kept."""
        if not hasattr(self, "machine"):
            return
        while self.waiting:
            run = self.waiting[0]
            decoupled = self.is_decoupled(run)
            if not decoupled or self.produced < 2:
                lineage = run.next_lineage(decoupled=decoupled)
                self.produced += decoupled
                values = {name: a_value(f"{name}@{lineage}") for name in run.step.outputs.values()}
                self.take(self.machine.receive(run, values, decoupled=decoupled))
                if decoupled:
                    continue
            self.end(run)
        root_needed = any(step.index == 0 for step in self.plan.steps)
        expected = self.produced if self.decoupled and root_needed else 1
        assert sum(self.answers.values()) == expected, "an answer was lost"
        assert {index for index, _ in self.started} <= {step.index for step in self.plan.steps}
        assert not any(self.machine._values.values()), "tensors are kept that nobody will read"


Spreading.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestSpreading = Spreading.TestCase


def test_only_what_the_requested_outputs_need_runs():
    config = an_ensemble(
        [("a", {"IN": "X"}, {"OUT": "t"}), ("b", {"IN": "t"}, {"OUT": "Y"}), ("c", {"IN": "X"}, {"OUT": "Z"})],
        outputs=("Y", "Z"),
    )
    graph = EnsembleGraph(config, config.scheduling)

    assert [step.index for step in graph.plan(["Z"]).steps] == [2]
    assert [step.index for step in graph.plan(["Y"]).steps] == [0, 1]
    assert [step.index for step in graph.plan([]).steps] == [0, 1, 2]
    assert graph.plan(["Z"]) is graph.plan(["Z"])
