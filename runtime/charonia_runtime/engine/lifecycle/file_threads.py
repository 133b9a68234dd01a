"""Threads for short work on files, apart from those that load models: a model that hangs must not stop the index."""

from collections.abc import Callable
from typing import TypeVar

from charonia_runtime.thread_pools import ThreadPool

Result = TypeVar("Result")

_THREADS = 4


class FileThreads:
    """Runs blocking calls away from the event loop."""

    def __init__(self) -> None:
        self._pool = ThreadPool("charonia-files", _THREADS)

    async def run(self, call: Callable[[], Result]) -> Result:
        """What `call` returns, or raises."""
        return await self._pool.run(call)
