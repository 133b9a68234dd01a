"""The model's own `is_ready`: called in a thread beside `execute`, whenever the server asks."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from charonia_runtime.ipc.frames import FrameKind
from charonia_runtime.stub.exceptions import describe
from charonia_runtime.stub.session import Session


class ReadinessCheck:
    """Calls the function. Coroutines run on `model_loop`, that of the model's `execute`, or on one of their own."""

    def __init__(self, function: Callable[[], Any], model_loop: asyncio.AbstractEventLoop | None) -> None:
        self._function = function
        self._model_loop = model_loop
        self._own_loop: asyncio.AbstractEventLoop | None = None

    def ask(self) -> bool:
        """What the function returns. Raises what it raises, and TypeError where that is no bool."""
        result = self._function()
        if asyncio.iscoroutine(result):
            result = self._await(result)
        if not isinstance(result, bool):
            raise TypeError("is_ready() must return a boolean value")
        return result

    def _await(self, coroutine: Any) -> Any:
        if self._model_loop is not None:
            return asyncio.run_coroutine_threadsafe(coroutine, self._model_loop).result()
        if self._own_loop is None:
            self._own_loop = asyncio.new_event_loop()  # kept: what one call opens on it the next may use
        return self._own_loop.run_until_complete(coroutine)


def answer_questions(session: Session, questions: int, check: ReadinessCheck) -> None:
    """
    Answer each byte that comes through the pipe `questions`, until its end.

    They have a pipe of their own because nobody reads the channel while `execute` runs.
    """
    while os.read(questions, 1):
        try:
            answer: dict[str, Any] = {"ready": check.ask()}
        except BaseException as error:  # noqa: BLE001  # SystemExit, too: it is no way to say that all is well
            answer = {"error": describe(error)}
        session.send(FrameKind.READINESS, answer)
