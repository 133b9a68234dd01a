"""What a model says of its own readiness: asked beside its batches, one question at a time."""

import asyncio
import json
import logging
from contextlib import suppress

from charonia_runtime.backends.python.stub_process import StubProcess
from charonia_runtime.ipc.frames import Frame

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
"""How long who asks waits, as in Triton."""


class Readiness:
    """
    The model's `is_ready` in one child. Used on the event loop.

    Who asks while a question is open gets its answer, too. One that is never answered stays open: the model is not
    ready, and nobody waits for longer than `ANSWER_SECONDS`.
    """

    def __init__(self, name: str, stub: StubProcess) -> None:
        self._name = name
        self._stub = stub
        self._answer: asyncio.Future[str] | None = None
        self._reason = ""

    async def ask(self) -> bool:
        """Whether the model is ready; True, at no cost, when it has no `is_ready`."""
        if not self._stub.has_check:
            return True
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
            self._stub.ask_readiness()
        reason = "Timed out waiting for user-defined is_ready() response"
        with suppress(TimeoutError):
            reason = await asyncio.wait_for(asyncio.shield(self._answer), ANSWER_SECONDS)
        if reason and reason != self._reason:
            logger.warning("%s: %s", self._name, reason)
        self._reason = reason
        return not reason

    def answered(self, frame: Frame) -> None:
        """The child has answered: with true or false, or with the text of what its function raised."""
        answer = json.loads(bytes(frame.body))
        if "error" in answer:
            self._settle(str(answer["error"]))
        else:
            self._settle("" if answer["ready"] else f"Model '{self._name}' is not ready (user-defined check failed).")

    def close(self) -> None:
        """The child is gone."""
        self._settle(f"Stub process '{self._name}' is not healthy.")

    def _settle(self, reason: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(reason)
