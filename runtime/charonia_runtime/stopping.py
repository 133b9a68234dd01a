"""How the process is told to end, and how it ends when its own way there takes too long."""

import asyncio
import logging
import os
import signal
import threading

logger = logging.getLogger(__name__)


class StopSignals:
    """
    SIGINT and SIGTERM as they come, on the event loop that this is made on.

    The first begins the end. Each further one cuts short what is waited for: the drain first, then everything.
    """

    def __init__(self) -> None:
        self._received = asyncio.Queue[int]()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._receive, number)

    async def wait(self) -> None:
        """Return with the next signal that nobody has waited for yet."""
        await self._received.get()

    def _receive(self, number: int) -> None:
        logger.info("Signal (%d) received.", number)
        self._received.put_nowait(number)


class LastResort:
    """
    Ends the process with the exit code 1 when the time is over, whatever hangs: the event loop, a library, a model.

    Its children end with it: each holds a lifeline.
    """

    def __init__(self) -> None:
        self._disarmed = threading.Event()

    def arm(self, seconds: float) -> None:
        """Begin to count."""
        threading.Thread(target=self._wait, args=(seconds,), name="last-resort", daemon=True).start()

    def disarm(self) -> None:
        """The process ends by itself."""
        self._disarmed.set()

    def leave(self, code: int) -> None:
        """End the process now."""
        for handler in logging.getLogger().handlers:
            handler.flush()
        os._exit(code)

    def _wait(self, seconds: float) -> None:
        if not self._disarmed.wait(seconds):
            logger.error("Exit timeout expired and something hangs: the process ends as it is.")
            self.leave(1)
