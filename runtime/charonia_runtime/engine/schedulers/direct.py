"""The scheduler of models without a scheduling choice: each request runs alone, on the first idle instance."""

from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.engine.schedulers.queue import Rejection, RequestQueue


class DirectScheduler:
    """First come, first served, one at a time; no limit, no timeout, no priority."""

    __slots__ = ("_queue",)

    collects = False
    expires = False

    def __init__(self) -> None:
        self._queue = RequestQueue()

    def enqueue(self, request: InferenceRequest) -> None:
        self._queue.push(request)

    def next_batch(self, now_ns: int, slot: int) -> list[InferenceRequest]:  # noqa: ARG002 - any instance, at once
        return self._queue.take(1)

    def expire(self, now_ns: int) -> list[Rejection]:  # noqa: ARG002 - nothing does
        return []

    def wake_at(self, *, idle: bool) -> int | None:  # noqa: ARG002 - nothing is held back
        return None

    def cancel(self, request: InferenceRequest) -> bool:
        return self._queue.remove(request)

    def drain(self) -> list[InferenceRequest]:
        return self._queue.take(len(self._queue))

    def __len__(self) -> int:
        return len(self._queue)
