import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra opentelemetry")

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from charonia_runtime.engine.tracing.opentelemetry import OpenTelemetryTraces
from tests.support.requests import a_request
from tests.support.traces import TraceMaker, a_sampler, run

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def spans(settings=None, sampler=None, **fields):
    exporter = InMemorySpanExporter()
    traces = OpenTelemetryTraces(settings or {}, exporter)
    TraceMaker(traces, sampler).finished(**fields)
    traces._provider.force_flush()
    return {span.name: span for span in exporter.get_finished_spans()}


def test_the_tree_of_one_request():
    made = spans(request_id="rid")

    outer, model, compute = made["InferRequest"], made["simple"], made["compute"]
    assert outer.parent is None
    assert (model.parent.span_id, compute.parent.span_id) == (outer.context.span_id, model.context.span_id)
    assert [event.name for event in outer.events] == [
        "HTTP_RECV_START", "HTTP_RECV_END", "INFER_RESPONSE_COMPLETE", "HTTP_SEND_START", "HTTP_SEND_END",
    ]  # fmt: skip
    assert [event.name for event in model.events] == ["REQUEST_START", "QUEUE_START", "REQUEST_END"]
    assert [event.name for event in compute.events] == [
        "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
    ]  # fmt: skip
    assert dict(model.attributes) == {
        "triton.model_name": "simple",
        "triton.model_version": 3,
        "triton.trace_id": 1,
        "triton.trace_parent_id": 0,
        "triton.request_id": "rid",
    }
    assert (compute.end_time - compute.start_time, outer.kind.name, outer.instrumentation_scope.name) == (
        300, "SERVER", "triton-server",
    )  # fmt: skip


def test_a_clients_span_is_the_parent():
    outer = spans(traceparent=PARENT)["InferRequest"]

    assert f"{outer.parent.span_id:x}" == "b7ad6b7169203331"
    assert f"{outer.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


def test_a_parent_that_is_none_is_ignored():
    assert spans(traceparent="nonsense")["InferRequest"].parent is None


def test_steps_are_spans_under_their_ensemble():
    made = spans(steps=1)

    assert made["step"].parent.span_id == made["simple"].context.span_id
    assert made["compute"].parent.span_id == made["step"].context.span_id
    assert made["step"].attributes["triton.trace_parent_id"] == 1


def test_a_models_context_is_its_span_which_is_begun_for_it():
    exporter = InMemorySpanExporter()
    traces = OpenTelemetryTraces({}, exporter)
    trace = TraceMaker(traces).trace(traceparent=PARENT)
    request = a_request()
    trace.note("HTTP_RECV_START", 1000)
    trace.follow(request, ensemble=False)
    request.arrival_ns, request.queued_ns = 1200, 1250

    context = json.loads(trace.context())
    assert trace.context() == json.dumps(context, separators=(",", ":"))  # asked twice, begun once
    run(request)
    trace.end()
    traces._provider.force_flush()
    made = {span.name: span for span in exporter.get_finished_spans()}

    version, trace_id, span_id, flags = context["traceparent"].split("-")
    assert (version, trace_id, flags) == ("00", "0af7651916cd43dd8448eb211c80319c", "01")
    assert span_id == f"{made['simple'].context.span_id:016x}"
    assert sorted(made) == ["InferRequest", "compute", "simple"]
    assert made["simple"].start_time - made["InferRequest"].start_time == 200
    assert f"{made['InferRequest'].parent.span_id:x}" == "b7ad6b7169203331"


def test_without_times_there_is_no_context():
    traces = OpenTelemetryTraces({}, InMemorySpanExporter())
    assert TraceMaker(traces, a_sampler(levels=("TENSORS",))).trace().context() is None


def test_a_call_that_ends_after_its_caller_is_below_it():
    exporter = InMemorySpanExporter()
    traces = OpenTelemetryTraces({}, exporter)
    trace = TraceMaker(traces).trace()
    request, call = a_request(), a_request("other")
    trace.follow(request, ensemble=False)
    call.trace = trace.spawn("other")
    call.trace.follow(call, ensemble=False)

    run(request)
    trace.end()
    run(call)
    traces._provider.force_flush()

    made = {span.name: span for span in exporter.get_finished_spans() if span.name != "compute"}
    assert made["other"].parent.span_id == made["simple"].context.span_id


def test_a_request_that_is_refused_is_only_what_the_frontend_saw():
    exporter = InMemorySpanExporter()
    traces = OpenTelemetryTraces({}, exporter)
    trace = TraceMaker(traces).trace()
    trace.note("HTTP_RECV_START", 1000)
    trace.follow(a_request(), ensemble=False)
    trace.refused()
    trace.end()
    traces._provider.force_flush()

    (outer,) = exporter.get_finished_spans()
    assert (outer.name, [event.name for event in outer.events]) == ("InferRequest", ["HTTP_RECV_START"])


def test_resources():
    resource = spans({"resource": ("a=b", "service.name=mine")})["simple"].resource.attributes
    assert (resource["a"], resource["service.name"]) == ("b", "mine")
    assert spans()["simple"].resource.attributes["service.name"] == "triton-inference-server"


def test_a_queue_smaller_than_a_batch():
    assert "simple" in spans({"bsp_max_queue_size": ("10",)})


def test_tensors_are_no_spans():
    assert spans(sampler=a_sampler(levels=("TENSORS",))) == {}


class Collector(BaseHTTPRequestHandler):
    """Takes spans by OTLP and remembers the paths."""

    paths: ClassVar[list[str]] = []

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.paths.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_collector_is_reached_with_and_without_a_scheme(scheme):
    """NVIDIA's documentation gives `url=localhost:4318/v1/traces`."""
    Collector.paths.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            traces = OpenTelemetryTraces({"url": (f"{scheme}127.0.0.1:{server.server_port}/v1/traces",)})
            TraceMaker(traces).finished()
            traces.close()
        finally:
            server.shutdown()
            thread.join()
    assert Collector.paths == ["/v1/traces"]
