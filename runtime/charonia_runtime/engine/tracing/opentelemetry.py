"""Traces as spans, exported by OTLP over HTTP. Needs the extra `opentelemetry`."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from charonia_runtime.engine.tracing.elements import computing_of
from charonia_runtime.engine.tracing.request_trace import RequestTrace
from charonia_runtime.engine.tracing.sampling import Sampler

_SERVICE: Final = "triton-inference-server"
_SCOPE: Final = "triton-server"

Events = Sequence[tuple[str, int]]


class OpenTelemetryTraces:
    """
    See `request_trace.Destination`. Spans are made of a trace when it is finished, and exported in batches by a thread
    of the SDK. Tensors are not exported, as in Triton.
    """

    joins_traces = True

    def __init__(self, settings: Mapping[str, Sequence[str]], exporter: SpanExporter | None = None) -> None:
        """`settings` are those of `--trace-config opentelemetry,…`; `exporter` is for tests."""
        attributes = dict(text.partition("=")[::2] for text in settings.get("resource", ()))
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource({"service.name": _SERVICE, **attributes}), shutdown_on_exit=False
        )
        url = settings.get("url", ("",))[-1]
        self._provider.add_span_processor(
            BatchSpanProcessor(
                exporter or OTLPSpanExporter(endpoint=url or None),
                max_queue_size=_number(settings, "bsp_max_queue_size", 2048),
                schedule_delay_millis=_number(settings, "bsp_schedule_delay", 5000),
                max_export_batch_size=_number(settings, "bsp_max_export_batch_size", 512),
            )
        )
        self._tracer = self._provider.get_tracer(_SCOPE)
        self._propagator = TraceContextTextMapPropagator()

    def write(self, trace: RequestTrace) -> None:
        if trace.parent_id or not trace.wants_times:
            return  # the spans of steps are made with their ensemble's
        wall_ns = time.time_ns() - time.monotonic_ns()
        context = self._propagator.extract({"traceparent": trace.traceparent}) if trace.traceparent else Context()
        responses = [("INFER_RESPONSE_COMPLETE", ns) for ns in trace.response_ns]
        outer = [*trace.received, *responses, *trace.sent]
        span = self._span("InferRequest", outer or _of_request(trace), wall_ns, context)
        if trace.end_ns:
            self._write_model(trace, wall_ns, set_span_in_context(span, context))
        _end(span, [*outer, *_of_request(trace)], wall_ns)

    def drop(self, sampler: Sampler) -> None:
        """Nothing is collected here."""

    def close(self) -> None:
        self._provider.shutdown()

    def _write_model(self, trace: RequestTrace, wall_ns: int, context: Context) -> None:
        events = _of_request(trace)
        span = self._span(trace.model_name, events, wall_ns, context)
        span.set_attribute("triton.model_name", trace.model_name)
        span.set_attribute("triton.model_version", trace.model_version)
        span.set_attribute("triton.trace_id", trace.id)
        span.set_attribute("triton.trace_parent_id", trace.parent_id)
        if trace.request_id:
            span.set_attribute("triton.request_id", trace.request_id)
        inside = set_span_in_context(span, context)
        for step in trace.children:
            if step.end_ns:
                self._write_model(step, wall_ns, inside)
        computing = computing_of(trace)
        if computing:
            _end(self._span("compute", computing, wall_ns, inside), computing, wall_ns)
        _end(span, events, wall_ns)

    def _span(self, name: str, events: Events, wall_ns: int, context: Context) -> Span:
        start_ns = min((ns for _, ns in events), default=time.monotonic_ns())
        span = self._tracer.start_span(name, context, SpanKind.SERVER, start_time=start_ns + wall_ns)
        for event, ns in events:
            span.add_event(event, timestamp=ns + wall_ns)
        return span


def _of_request(trace: RequestTrace) -> Events:
    if not trace.end_ns:
        return []
    return [("REQUEST_START", trace.start_ns), ("QUEUE_START", trace.queue_ns), ("REQUEST_END", trace.end_ns)]


def _end(span: Span, events: Events, wall_ns: int) -> None:
    span.end(max((ns for _, ns in events), default=time.monotonic_ns()) + wall_ns)


def _number(settings: Mapping[str, Sequence[str]], name: str, default: int) -> int:
    text = settings.get(name, (str(default),))[-1]
    return int(text) if text.isascii() and text.isdecimal() and int(text) else default
