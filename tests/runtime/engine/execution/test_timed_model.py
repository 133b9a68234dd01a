"""The histogram of first responses: each request once, whatever stands behind, nothing of refused ones."""

from dataclasses import dataclass, field

import pytest

from charonia_runtime.core.errors import InvalidArgumentError, UnknownError
from charonia_runtime.core.request import InferenceResponse
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.engine.execution.timed_model import TimedModel
from tests.support.requests import RecordingSink, a_request


@dataclass
class Copy:
    """Keeps requests for the test to answer."""

    statistics: ModelStatistics = field(default_factory=ModelStatistics)
    requests: list = field(default_factory=list)
    refusal: InvalidArgumentError | None = None

    def submit(self, request):
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)


@pytest.fixture
def clock(monkeypatch):
    """Milliseconds that the test sets."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic_ns", lambda: int(now[0] * 1e6))
    return now


def respond(request, **fields):
    request.sink.send(InferenceResponse(request.model_name, 1, request.id, **fields))


def test_only_the_first_response_counts(clock):
    copy = Copy()
    model = TimedModel(copy, (100, 500))
    sink = RecordingSink()
    model.submit(a_request(sink=sink))
    clock[0] = 250.9
    respond(copy.requests[0], final=False)
    clock[0] = 9000.0
    respond(copy.requests[0], final=False)
    respond(copy.requests[0], flag_only=True)

    histogram = copy.statistics.first_response
    assert (histogram.counts, histogram.sum) == ([0, 1, 0], 250.0)
    assert len(sink.responses) == 3


def test_errors_are_responses_and_flags_are_not(clock):
    copy = Copy()
    model = TimedModel(copy, (100,))
    for _ in range(2):
        model.submit(a_request(sink=RecordingSink()))
    respond(copy.requests[0], error=UnknownError("no"))
    respond(copy.requests[1], flag_only=True)

    assert copy.statistics.first_response.counts == [1, 0]


def test_refused_requests_are_given_back_as_they_were():
    sink = RecordingSink()
    request = a_request(sink=sink)
    model = TimedModel(Copy(refusal=InvalidArgumentError("no")), (100,))

    with pytest.raises(InvalidArgumentError):
        model.submit(request)

    assert request.sink is sink
