"""
What must hold of requests through an ensemble whatever its models, its clients and its limits do: everyone is answered
finally, once, with their own data; no step has more in flight than its limit; nothing keeps a place in it.
"""

import asyncio

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from charonia_runtime.core.errors import CancelledError, NotFoundError, UnavailableError
from tests.support.ensembles import Bench, a_model, an_ensemble

CHAIN = [("a", {"IN": "X"}, {"OUT": "t"}), ("b", {"IN": "t"}, {"OUT": "Y"})]
DIAMOND = [
    ("a", {"IN": "X"}, {"OUT": "t"}),
    ("b", {"IN": "X"}, {"OUT": "u"}),
    ("add", {"A": "t", "B": "u"}, {"OUT": "Y"}),
]
STREAM = [("repeat", {"IN": "X"}, {"OUT": "t"}), ("b", {"IN": "t"}, {"OUT": "Y"})]
MODELS = {
    "a": a_model("a"),
    "b": a_model("b"),
    "add": a_model("add", ("A", "B")),
    "repeat": a_model("repeat", decoupled=True),
}


def number_of(tensors):
    """The number in all of these, which carry it from their request's input on."""
    (number,) = {int(element) for tensor in tensors for element in tensor.as_numpy().flat}
    return number


class Flights(RuleBasedStateMachine):
    @initialize(steps=st.sampled_from([CHAIN, DIAMOND, STREAM]), most=st.integers(0, 2))
    def start(self, steps, most):
        self.runner = asyncio.Runner()
        self.most = most
        self.bench = Bench(an_ensemble(steps, most=most), *(MODELS[step[0]] for step in steps))
        self.requests = []

    def on_loop(self, call):
        async def once():
            call()
            await asyncio.sleep(0)

        self.runner.run(once())

    def running(self):
        return [(model, request) for model in self.bench.models.values() for request in model.requests]

    @rule()
    def submit(self):
        rows = np.full((1, 4), len(self.requests), np.int32)
        self.on_loop(lambda: self.requests.append(self.bench.submit({"X": rows})))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), what=st.sampled_from(["data", "data", "data", "more", "error", "nothing"]))
    def answer(self, data, what):
        """A step answers; decoupled ones may have more to say."""
        model, request = data.draw(st.sampled_from(self.running()))
        self.on_loop(lambda: self.give(model, request, what))

    def give(self, model, request, what):
        number = number_of(request.inputs.values())
        decoupled = model.config.decoupled
        if what == "error":
            model.fail(request, NotFoundError("no"), final=not decoupled)
        elif what == "nothing" and decoupled:
            model.end(request)
        else:
            model.send(request, final=not (decoupled and what == "more"), OUT=np.full((1, 4), number, np.int32))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def cancel(self, data):
        request = data.draw(st.sampled_from(self.requests))
        self.on_loop(lambda: self.bench.model.cancel(request))

    @rule(data=st.data(), refuses=st.booleans())
    def change(self, data, refuses):
        """From now on a model refuses what it is given, or takes it again."""
        model = data.draw(st.sampled_from(sorted(self.bench.models)))
        self.bench[model].refusal = UnavailableError("gone") if refuses else None

    @invariant()
    def limits_hold(self):
        if hasattr(self, "runner") and self.most:
            assert all(len(model.requests) <= self.most for model in self.bench.models.values())

    @invariant()
    def answers_are_right(self):
        if not hasattr(self, "runner"):
            return
        for number, request in enumerate(self.requests):
            for response in request.sink.responses:
                assert not response.outputs or number_of(response.outputs) == number
                if isinstance(response.error, CancelledError):
                    assert request.cancelled
        statistics = self.bench.model.statistics
        ended = sum(request.sink.ended for request in self.requests)
        assert statistics.success.count + statistics.fail.count == ended, "counted once each"

    def teardown(self):
        if hasattr(self, "runner"):
            with self.runner:
                self.everyone_is_answered()

    def everyone_is_answered(self):
        """Whatever runs is answered: then nobody waits, and the limits have their places back."""
        for model in self.bench.models.values():
            model.refusal = None
        while running := self.running():
            self.on_loop(lambda: self.give(*running[0], "nothing"))
            self.limits_hold()
        assert all(request.sink.ended for request in self.requests), "an answer was lost"
        assert self.bench.model.in_flight == 0
        self.answers_are_right()
        self.submit()
        while running := self.running():
            self.on_loop(lambda: self.give(*running[0], "data"))
        assert self.requests[-1].sink.responses[0].error is None, "a place in a limit was lost"


Flights.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestFlights = Flights.TestCase
