from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import InferenceResponse
from tests.support.requests import RecordingSink, a_request
from tests.support.traces import TIMES, KeptTraces, TraceMaker, run


def test_is_finished_when_the_answer_is_sent():
    kept = KeptTraces()
    trace = TraceMaker(kept).trace()
    sink = RecordingSink()
    request = a_request(sink=sink, id="a")

    trace.follow(request, ensemble=False)
    run(request)
    assert (len(sink.responses), kept.traces) == (1, [])
    trace.end()

    assert kept.traces == [trace]
    assert (trace.model_version, trace.request_id, trace.times) == (3, "a", TIMES)


def test_is_finished_when_a_client_that_is_gone_has_its_answer():
    kept = KeptTraces()
    trace = TraceMaker(kept).trace()
    request = a_request()
    trace.follow(request, ensemble=False)

    trace.end()
    assert kept.traces == []
    run(request)

    assert kept.traces == [trace]


def test_a_refused_request_is_left_as_it_was():
    kept = KeptTraces()
    trace = TraceMaker(kept).trace()
    heard = []
    sink, executed = RecordingSink(), heard.append
    request = a_request(sink=sink, executed=executed)

    trace.follow(request, ensemble=False)
    trace.refused()
    trace.end()

    assert (request.sink, request.executed) == (sink, executed)
    assert (kept.traces, trace.end_ns) == ([trace], 0)


def test_whoever_wanted_to_hear_of_the_execution_still_does():
    heard = []
    request = a_request(executed=heard.append)
    TraceMaker(KeptTraces()).trace().follow(request, ensemble=False)

    run(request)

    assert heard == [TIMES]


def test_steps_are_finished_before_their_ensemble():
    kept = KeptTraces()
    whole = TraceMaker(kept).finished(steps=2)
    *steps, last = kept.traces

    assert [(trace.id, trace.parent_id) for trace in kept.traces] == [(2, 1), (3, 1), (1, 0)]
    assert last is whole
    assert whole.times is None
    assert all(step.times is TIMES and step.end_ns and not step.response_ns for step in steps)


def test_what_is_spawned_ends_with_its_request():
    kept = KeptTraces()
    trace = TraceMaker(kept).trace()
    request = a_request("other")

    spawned = trace.spawn("other")
    spawned.follow(request, ensemble=False)
    assert spawned.context() == '{"trace":2}'
    run(request)

    assert (kept.traces, spawned.parent_id, spawned.traceparent) == ([spawned], 1, None)


def test_what_is_spawned_and_refused_is_finished_too():
    kept = KeptTraces()
    trace = TraceMaker(kept).trace()
    request = a_request("other")

    spawned = trace.spawn("other")
    spawned.follow(request, ensemble=False)
    spawned.refused()

    assert (kept.traces, spawned.end_ns) == ([spawned], 0)


def test_responses_of_decoupled_models_are_recorded_one_by_one():
    trace = TraceMaker(KeptTraces()).trace()
    request = a_request()
    trace.follow(request, ensemble=False)

    run(request, final=False)
    run(request, final=False)
    run(request, flag_only=True)

    assert len(trace.response_ns) == 2


def test_errors_are_answers():
    trace = TraceMaker(KeptTraces()).trace()
    request = a_request()
    trace.follow(request, ensemble=False)

    request.sink.send(InferenceResponse("simple", 3, error=InvalidArgumentError("no")))
    trace.end()

    assert trace.end_ns
    assert trace.times is None
