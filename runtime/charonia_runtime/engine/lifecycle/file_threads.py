"""Threads for short work on files, apart from those that load models: a model that hangs must not stop the index."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

_THREADS = 4


class FileThreads:
    """Runs blocking calls away from the event loop."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="charonia-files")

    async def run(self, call: Callable[[], Result]) -> Result:
        """What `call` returns, or raises."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)
