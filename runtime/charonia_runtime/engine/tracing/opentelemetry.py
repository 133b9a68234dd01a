"""Traces as spans, exported by OTLP over HTTP. Needs the extra `opentelemetry`."""

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from charonia_runtime.core.texts import utf8_text
from charonia_runtime.engine.tracing.elements import computing_of
from charonia_runtime.engine.tracing.request_trace import RequestTrace
from charonia_runtime.engine.tracing.sampling import Sampler

_SERVICE: Final = "triton-inference-server"
_SCOPE: Final = "triton-server"

Events = Sequence[tuple[str, int]]


class _Spans(NamedTuple):
    """The open spans of one trace."""

    outer: Span | None
    """The frontend's; None for requests that other requests made."""
    model: Span
    inside: Context
    """For spans below the model's."""
    wall_ns: int
    """What the monotonic clock lacked to the wall clock when the trace began."""


class OpenTelemetryTraces:
    """
    See `request_trace.Destination`. Spans are made of a trace when it is finished, or when others are to be made below
    them, and exported in batches by a thread of the SDK. Tensors are not exported, as in Triton.
    """

    joins_traces = True

    def __init__(self, settings: Mapping[str, Sequence[str]], exporter: SpanExporter | None = None) -> None:
        """`settings` are those of `--trace-config opentelemetry,…`; `exporter` is for tests."""
        attributes = dict(text.partition("=")[::2] for text in settings.get("resource", ()))
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource({"service.name": _SERVICE, **attributes}), shutdown_on_exit=False
        )
        url = settings.get("url", ("",))[-1]
        most = _number(settings, "bsp_max_queue_size", 2048)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                exporter or OTLPSpanExporter(endpoint=_endpoint(url)),
                max_queue_size=most,
                schedule_delay_millis=_number(settings, "bsp_schedule_delay", 5000),
                max_export_batch_size=min(most, _number(settings, "bsp_max_export_batch_size", 512)),
            )
        )
        self._tracer = self._provider.get_tracer(_SCOPE)
        self._propagator = TraceContextTextMapPropagator()

    def write(self, trace: RequestTrace) -> None:
        if not trace.wants_times:
            return
        if trace.end_ns:
            spans = self._begin(trace)
            self._end_model(trace, spans)
            if spans.outer is not None:
                _end(spans.outer, _outside(trace), spans.wall_ns, trace.end_ns)
        elif trace.parent is None:  # refused before it was a request of any model
            wall_ns = _wall_ns()
            _end(self._begin_outer(trace, wall_ns, self._remote(trace)), _outside(trace), wall_ns)

    def context_of(self, trace: RequestTrace) -> str | None:
        """That of the model's span: what the model makes others record belongs below it."""
        if not trace.wants_times:
            return None
        made = self._begin(trace).model.get_span_context()
        return f'{{"traceparent":"00-{made.trace_id:032x}-{made.span_id:016x}-01"}}'

    def drop(self, sampler: Sampler) -> None:
        """Nothing is collected here."""

    def close(self) -> None:
        self._provider.shutdown()

    def _begin(self, trace: RequestTrace) -> _Spans:
        """The open spans of a trace, below those of the request that made its request."""
        spans = trace.spans
        if isinstance(spans, _Spans):
            return spans
        trace.begin()
        if trace.parent is not None:
            above = self._begin(trace.parent)
            outer, wall_ns, around = None, above.wall_ns, above.inside
        else:
            wall_ns, remote = _wall_ns(), self._remote(trace)
            outer = self._begin_outer(trace, wall_ns, remote)
            around = set_span_in_context(outer, remote)
        model = self._start(utf8_text(trace.model_name), trace.start_ns + wall_ns, around)
        spans = trace.spans = _Spans(outer, model, set_span_in_context(model, around), wall_ns)
        return spans

    def _remote(self, trace: RequestTrace) -> Context:
        """Where the client says that the request belongs."""
        return self._propagator.extract({"traceparent": trace.traceparent}) if trace.traceparent else Context()

    def _begin_outer(self, trace: RequestTrace, wall_ns: int, context: Context) -> Span:
        times = [ns for _, ns in trace.received] + [trace.start_ns or time.monotonic_ns()]
        return self._start("InferRequest", min(times) + wall_ns, context)

    def _end_model(self, trace: RequestTrace, spans: _Spans) -> None:
        span, wall_ns = spans.model, spans.wall_ns
        span.set_attribute("triton.model_name", utf8_text(trace.model_name))
        span.set_attribute("triton.model_version", trace.model_version)
        span.set_attribute("triton.trace_id", trace.id)
        span.set_attribute("triton.trace_parent_id", trace.parent_id)
        if trace.request_id:
            span.set_attribute("triton.request_id", utf8_text(trace.request_id))
        computing = computing_of(trace)
        if computing:
            _end(self._start("compute", computing[0][1] + wall_ns, spans.inside), computing, wall_ns)
        _end(span, _of_request(trace), wall_ns)

    def _start(self, name: str, wall_ns: int, context: Context) -> Span:
        return self._tracer.start_span(name, context, SpanKind.SERVER, start_time=wall_ns)


def _wall_ns() -> int:
    """What the monotonic clock lacks to the wall clock."""
    return time.time_ns() - time.monotonic_ns()


def _outside(trace: RequestTrace) -> Events:
    """What the frontend saw."""
    responses = [("INFER_RESPONSE_COMPLETE", ns) for ns in trace.response_ns]
    return [*trace.received, *responses, *trace.sent]


def _of_request(trace: RequestTrace) -> Events:
    return [("REQUEST_START", trace.start_ns), ("QUEUE_START", trace.queue_ns), ("REQUEST_END", trace.end_ns)]


def _end(span: Span, events: Events, wall_ns: int, end_ns: int = 0) -> None:
    """End a span with the last of its events, or at `end_ns` if that is later."""
    for event, ns in events:
        span.add_event(event, timestamp=ns + wall_ns)
    last_ns = max((ns for _, ns in events), default=end_ns or time.monotonic_ns())
    span.end(max(last_ns, end_ns) + wall_ns)


def _endpoint(url: str) -> str | None:
    """Return the collector's URL; one without a scheme is HTTP, as Triton's exporter takes it. None for the default."""
    if not url:
        return None
    return url if "://" in url else f"http://{url}"


def _number(settings: Mapping[str, Sequence[str]], name: str, default: int) -> int:
    text = settings.get(name, (str(default),))[-1]
    return int(text) if text.isascii() and text.isdecimal() and int(text) else default
