"""The last stretch of an ensemble's answers: finished as their client wants them, sent in order."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.engine.execution.answers import AnswerFinisher
from charonia_runtime.thread_pools import COPYING

logger = logging.getLogger(__name__)


class Delivery:
    """Sends the answers of one request. What takes copying or sorting is done in a thread, off the event loop."""

    __slots__ = ("_emptied", "_finisher", "_finishes", "_held", "_last", "_request")

    def __init__(self, request: InferenceRequest, finisher: AnswerFinisher, emptied: Callable[[], None]) -> None:
        """`emptied` is called when everything that had to wait for a thread has been sent."""
        self._request = request
        self._finisher = finisher
        self._emptied = emptied
        self._finishes = any(output.classes or output.memory is not None for output in request.outputs)
        self._last: asyncio.Task[None] | None = None
        """Sends the last answer that waits for a thread, or for one that does."""
        self._held = True

    @property
    def empty(self) -> bool:
        return self._last is None

    def release(self) -> None:
        """The request's submission is over: answers may leave within the call that makes them."""
        self._held = False

    def send(self, response: InferenceResponse) -> None:
        if self._last is not None or (self._finishes and response.outputs):
            self._last = asyncio.create_task(self._finish(response, self._last))
        elif self._held:
            asyncio.get_running_loop().call_soon(self._send, response)
        else:
            self._send(response)

    async def _finish(self, response: InferenceResponse, before: asyncio.Task[None] | None) -> None:
        answers = [(self._request, response)]
        if self._finishes and response.outputs:
            await COPYING.run(partial(self._finisher.finish, answers))
        if before is not None:
            await before
        self._send(answers[0][1])
        if self._last is asyncio.current_task():
            self._last = None
            self._emptied()

    def _send(self, response: InferenceResponse) -> None:
        """A sink that breaks must not take the ensemble along."""
        try:
            self._request.sink.send(response)
        except Exception:
            logger.exception("model '%s': delivering a response failed", self._request.model_name)
