"""Which inference requests are being answered, so that the listener can stop without losing one."""

import asyncio
import contextlib


class InFlight:
    """Counts requests from their acceptance until their answers are on their way. Used on one event loop."""

    __slots__ = ("_idle", "count", "stopping")

    def __init__(self) -> None:
        self.count = 0
        self.stopping = False
        """Whether new requests must be refused."""
        self._idle: asyncio.Event | None = None
        """There while somebody waits."""

    def begin(self) -> None:
        self.count += 1

    def end(self) -> None:
        self.count -= 1
        if self.count == 0 and self._idle is not None:
            self._idle.set()

    async def wait_idle(self, seconds: float) -> None:
        """Return when no request is in flight, or when the time is over."""
        if not self.count:
            return
        self._idle = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)
        self._idle = None
