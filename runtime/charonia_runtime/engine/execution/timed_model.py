"""`TimedModel`: a model whose clients' wait for the first response is counted."""

import time
from collections.abc import Sequence

from typing_extensions import override

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.histogram import Histogram
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, ResponseSink
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.execution.wrapped_model import WrappedModel


class TimedModel(WrappedModel):
    """
    Passes everything on; used on the event loop.

    Stands in front of everything else of a model, the response cache included, and only where the histogram is wanted:
    others pay nothing. Milliseconds are whole numbers, rounded down, as in Triton.
    """

    def __init__(self, model: ModelCopy, bounds_ms: Sequence[float]) -> None:
        super().__init__(model)
        self._histogram = model.statistics.first_response = Histogram(bounds_ms)

    @override
    def submit(self, request: InferenceRequest) -> None:
        """Raises InferenceError when the request is refused; then nothing is counted."""
        sink = request.sink
        request.sink = _FirstResponse(sink, self._histogram)
        try:
            self._model.submit(request)
        except InferenceError:
            request.sink = sink
            raise


class _FirstResponse:
    """A request's sink, in place of its own."""

    __slots__ = ("_begin_ns", "_histogram", "_sink")

    def __init__(self, sink: ResponseSink, histogram: Histogram) -> None:
        self._sink = sink
        self._histogram: Histogram | None = histogram
        self._begin_ns = time.monotonic_ns()

    def send(self, response: InferenceResponse) -> None:
        if self._histogram is not None and not response.flag_only and not response.refused:
            self._histogram.observe((time.monotonic_ns() - self._begin_ns) // 1_000_000)
            self._histogram = None
        self._sink.send(response)
