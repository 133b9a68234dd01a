"""Traces for the tests of their destinations, and a destination that keeps them."""

import itertools

from charonia_runtime.core.request import InferenceResponse
from charonia_runtime.core.statistics import ExecutionTimes
from charonia_runtime.engine.trace_options import TraceValues
from charonia_runtime.engine.tracing.request_trace import RequestTrace
from charonia_runtime.engine.tracing.sampling import Sampler
from tests.support.requests import a_request

TIMES = ExecutionTimes(1300, 1400, 1500, 1600)


class KeptTraces:
    """A destination in memory."""

    joins_traces = True

    def context_of(self, trace):
        return f'{{"trace":{trace.id}}}'

    def __init__(self):
        self.traces = []
        self.dropped = []
        self.closed = False

    def write(self, trace):
        self.traces.append(trace)

    def drop(self, sampler):
        self.dropped.append(sampler)

    def close(self):
        self.closed = True


def a_sampler(**values):
    return Sampler(TraceValues(**{"levels": ("TIMESTAMPS",), "rate": 1, **values}))


class TraceMaker:
    """Makes finished traces of HTTP requests for `destination`."""

    def __init__(self, destination, sampler=None):
        self.destination = destination
        self.sampler = sampler or a_sampler()
        self._ids = itertools.count(1)

    def trace(self, **fields):
        assert self.sampler.takes(forced=False)
        return RequestTrace("simple", self.sampler, self.destination, lambda: next(self._ids), **fields)

    def finished(self, *, request_id="", inputs=None, outputs=(), steps=0, **fields):
        trace = self.trace(**fields)
        trace.note("HTTP_RECV_START", 1000)
        trace.note("HTTP_RECV_END", 1100)
        request = a_request(inputs=inputs, id=request_id)
        trace.follow(request, ensemble=bool(steps))
        request.arrival_ns, request.queued_ns = 1200, 1250
        for _ in range(steps):
            step = a_request("step")
            step.trace = trace.spawn("step")
            step.trace.follow(step, ensemble=False)
            step.arrival_ns, step.queued_ns = 1260, 1270
            run(step)
        run(request, outputs)
        trace.note("HTTP_SEND_START", 1700)
        trace.note("HTTP_SEND_END", 1800)
        trace.end()
        return trace


def run(request, outputs=(), **fields):
    """What a model does."""
    if request.executed is not None:
        request.executed(TIMES)
    request.sink.send(InferenceResponse(request.model_name, 3, request.id, list(outputs), **fields))
