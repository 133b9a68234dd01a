"""Traces of the requests that this frontend reads."""

import time

from charonia_runtime.core.request import Trace
from charonia_runtime.core.tracing import Tracing
from charonia_runtime.wires.http1.messages import Request


def begin_trace(tracing: Tracing, model: str, request: Request) -> Trace | None:
    """Return the trace of a request to `model` that is being read; None where it is not recorded."""
    if not tracing.active:
        return None
    trace = tracing.sample(model, request.head.field_text("traceparent"))
    if trace is not None:
        trace.note("HTTP_RECV_START", time.monotonic_ns())
    return trace
