"""Brings what serves in line with the repositories: all at once at start-up, again and again in mode poll."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.engine.lifecycle.file_threads import FileThreads
from charonia_runtime.engine.lifecycle.loading import ModelLoader
from charonia_runtime.engine.lifecycle.repository import ModelRepositories

logger = logging.getLogger(__name__)

Wait = Callable[[float], Awaitable[None]]
"""Waits for so many seconds."""


class RepositoryPoller:
    """Applies changes of the repositories to the loader."""

    def __init__(self, repositories: ModelRepositories, loader: ModelLoader, files: FileThreads) -> None:
        self._repositories = repositories
        self._loader = loader
        self._files = files
        self._seen: set[str] = set()

    async def load_all(self, names: Iterable[str] | None = None) -> bool:
        """Load `names`, or every model there is, in parallel. Whether all of them serve; causes are in the log."""
        if names is None:
            wanted = list(await self._files.run(self._repositories.locate))
        else:
            found = [await self._files.run(partial(self._repositories.identifiers, name)) for name in names]
            wanted = [identifier for identifiers in found for identifier in identifiers]
        self._seen.update(wanted)
        return await self._loader.load_all(wanted)

    async def poll(self) -> None:
        """Unload what is gone or ambiguous, then load what is new or modified; busy models wait for the next poll."""
        logger.debug("Polling model repository")
        await self._refresh()
        located = await self._files.run(self._repositories.locate)
        gone = [name for name in self._seen if len(located.get(name, ())) != 1]
        for name in gone:
            await self._loader.unload(name, forget=True)
        self._seen = set(located)
        await self._loader.load_all([name for name in located if not self._loader.busy(name)], patient=False)

    async def _refresh(self) -> None:
        try:
            await self._files.run(self._repositories.refresh)
        except InferenceError as error:
            logger.error("failed to copy a model repository: %s", error.message)  # noqa: TRY400

    async def run(self, seconds: float, wait: Wait = asyncio.sleep) -> None:
        """Poll every `seconds` until cancelled. A poll that goes wrong is logged, the next one comes."""
        while True:
            await wait(seconds)
            try:
                await self.poll()
            except Exception:
                logger.exception("failed to poll the model repositories")
