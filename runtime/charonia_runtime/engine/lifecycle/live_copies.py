"""Every copy of a model that is not closed yet, and the end of those that serve no more."""

import asyncio
import logging
from collections.abc import Iterator

from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.lifecycle.agent_notices import AgentNotices
from charonia_runtime.engine.lifecycle.file_threads import FileThreads
from charonia_runtime.engine.lifecycle.reading import PolledModel
from charonia_runtime.engine.registry import ModelRegistry

logger = logging.getLogger(__name__)


class LiveCopies:
    """Knows what each copy was loaded from. A copy ends when its requests and the ensembles made of it have."""

    def __init__(self, registry: ModelRegistry, files: FileThreads, notices: AgentNotices) -> None:
        self._registry = registry
        self._notices = notices
        self._files = files
        self._copies: dict[ModelCopy, PolledModel] = {}
        self._gone: dict[ModelCopy, asyncio.Event] = {}
        """Set when a copy has ended; for those that are about to, or that others wait for."""

    def __iter__(self) -> Iterator[ModelCopy]:
        return iter(list(self._copies))

    def __bool__(self) -> bool:
        return bool(self._copies)

    def origin(self, copy: ModelCopy) -> PolledModel:
        """What the copy was loaded from."""
        return self._copies[copy]

    def add(self, copy: ModelCopy, polled: PolledModel) -> None:
        self._copies[copy] = polled

    async def end(self, name: str, copy: ModelCopy) -> None:
        """Close a copy that serves no more, once nothing needs it."""
        gone = self._gone.setdefault(copy, asyncio.Event())
        await self._until_unused(copy)
        try:
            copy.wind_up()
            await copy.drain()
            await copy.close()
        except Exception:
            logger.exception("failed to unload '%s' version %d", name, copy.version)
        polled = self._copies.pop(copy)
        del self._gone[copy]
        gone.set()
        await self._notices.gone(copy)
        self._registry.closed(name, copy.version, copy)
        logger.info("successfully unloaded '%s' version %d", name, copy.version)
        await self.remove_unused(polled)

    async def remove_unused(self, polled: PolledModel) -> None:
        """Delete the files of a load request when no copy uses them."""
        directory = polled.override_directory
        if directory is not None and all(other is not polled for other in self._copies.values()):
            await self._files.run(directory.remove)

    async def _until_unused(self, copy: ModelCopy) -> None:
        """An ensemble goes on with the copies that it was made with: they outlive it."""
        while True:
            users = [other for other in self._copies if copy in other.composing]
            if not users:
                return
            await asyncio.gather(*(self._gone.setdefault(user, asyncio.Event()).wait() for user in users))
