"""Regions of shared memory that requests in flight use: they stay registered until the last of these is answered."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from charonia_runtime.core.request import InferenceRequest, InferenceResponse, ResponseSink
from charonia_runtime.core.tensor import SharedMemoryRef


class HeldRegions:
    """In front of the sink of a request that uses regions; its final response calls `release`, once."""

    __slots__ = ("_release", "_request", "_sink")

    def __init__(self, request: InferenceRequest, release: Callable[[], None]) -> None:
        self._request = request
        self._release = release
        self._sink: ResponseSink = request.sink
        request.sink = self

    def send(self, response: InferenceResponse) -> None:
        try:
            self._sink.send(response)
        finally:
            if response.final:
                self._release()

    def refused(self) -> None:
        """Release the regions of a request that was not accepted."""
        self._request.sink = self._sink
        self._release()


Submit: TypeAlias = Callable[[InferenceRequest], None]
"""Submits a request. Raises InferenceError when it is refused."""
HoldRegions: TypeAlias = Callable[[InferenceRequest, Submit], None]
"""Submits a request and holds the regions that it names until it is answered. Raises as `Submit` does."""


def hold_nothing(request: InferenceRequest, submit: Submit) -> None:
    """Submit the request and hold no regions: for a server without shared memory."""
    submit(request)


def regions_of(request: InferenceRequest) -> Sequence[str]:
    """Return the names of the regions that inputs and outputs of the request lie in, each once."""
    inputs = (tensor.data for tensor in request.inputs.values())
    outputs = (output.shared_memory for output in request.outputs)
    return list({ref.region for ref in (*inputs, *outputs) if isinstance(ref, SharedMemoryRef)})
