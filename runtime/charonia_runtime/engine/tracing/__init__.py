"""
Records the course of single requests: which ones, what of them, and where it is written.

`tracer` is `core.tracing.Tracing`; `request_trace` collects what happens to one request; `sampling` counts; `files`
and `opentelemetry` are where finished traces go, chosen by `--trace-config mode=`. Nothing here runs, and no request
is touched, while the trace level is OFF.
"""
