"""Tells the repository agents of a model's configuration what becomes of the model, each action once and in order."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from charonia_runtime.core.agent import Agent, AgentAction
from charonia_runtime.core.errors import InferenceError, InternalError
from charonia_runtime.engine.agents import make_agents
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.lifecycle.file_threads import FileThreads
from charonia_runtime.engine.lifecycle.reading import PolledModel

logger = logging.getLogger(__name__)


class AgentSession:
    """The agents of one load of a model. Everything here blocks."""

    def __init__(self, agents: Sequence[Agent], directory: Path) -> None:
        self._agents = agents
        self._directory = directory

    def load(self) -> None:
        """Ask each agent. Raises InferenceError when one refuses; then those that were asked have heard LOAD_FAIL."""
        for asked, agent in enumerate(self._agents, 1):
            try:
                agent.act(AgentAction.LOAD, self._directory)
            except Exception as error:
                _tell(self._agents[:asked][::-1], AgentAction.LOAD_FAIL, self._directory)
                if isinstance(error, InferenceError):
                    raise
                raise InternalError(f"a repository agent failed: {type(error).__name__}: {error}") from error

    def tell(self, action: AgentAction) -> None:
        """What ends something reaches the agents in reverse."""
        agents = self._agents if action is AgentAction.UNLOAD else self._agents[::-1]
        _tell(agents, action, self._directory)


def _tell(agents: Sequence[Agent], action: AgentAction, directory: Path) -> None:
    for agent in agents:
        try:
            agent.act(action, directory)
        except Exception:
            logger.exception("the repository agent %s failed on %s of %s", type(agent), action.value, directory)


class _Told:
    """A session whose model is loaded, and the copies that it is about."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        self.copies: set[ModelCopy] = set()
        self.unloading = False
        self.turn = asyncio.Lock()


class AgentNotices:
    """The agents of all models. Used on the event loop; the agents work in `files`' threads."""

    def __init__(self, files: FileThreads) -> None:
        self._files = files
        self._loading: dict[str, AgentSession] = {}
        self._serving: dict[str, _Told] = {}
        self._leaving: set[_Told] = set()

    async def begin_load(self, polled: PolledModel) -> None:
        """LOAD. Raises InferenceError when an agent refuses the model."""
        wanted = polled.config.repository_agents
        if wanted:
            session = AgentSession(make_agents(wanted), polled.entry.directory)
            await self._files.run(session.load)
            self._loading[polled.identifier] = session

    async def fail_load(self, name: str) -> None:
        """LOAD_FAIL; what served before goes on."""
        session = self._loading.pop(name, None)
        if session is not None:
            await self._files.run(partial(session.tell, AgentAction.LOAD_FAIL))

    async def complete_load(self, name: str, copies: Iterable[ModelCopy]) -> None:
        """LOAD_COMPLETE for those whose `copies` serve now, UNLOAD for those whose served before."""
        session, replaced = self._loading.pop(name, None), self._leave(name)
        serving = set(copies)
        if session is not None:
            told = self._serving[name] = _Told(session)
            told.copies = serving
            async with told.turn:
                await self._files.run(partial(session.tell, AgentAction.LOAD_COMPLETE))
        if replaced is not None:
            replaced.copies -= serving
            await self._begin_unload(replaced)

    async def begin_unload(self, name: str) -> None:
        """UNLOAD."""
        told = self._leave(name)
        if told is not None:
            await self._begin_unload(told)

    async def gone(self, copy: ModelCopy) -> None:
        """UNLOAD_COMPLETE for those whose last copy this was."""
        for told in [*self._serving.values(), *self._leaving]:
            if copy in told.copies:
                told.copies.discard(copy)
                await self._end_if_gone(told)

    def _leave(self, name: str) -> _Told | None:
        told = self._serving.pop(name, None)
        if told is not None:
            self._leaving.add(told)
        return told

    async def _begin_unload(self, told: _Told) -> None:
        async with told.turn:
            await self._files.run(partial(told.session.tell, AgentAction.UNLOAD))
            told.unloading = True
        await self._end_if_gone(told)

    async def _end_if_gone(self, told: _Told) -> None:
        async with told.turn:
            if told.unloading and not told.copies and told in self._leaving:
                self._leaving.discard(told)
                await self._files.run(partial(told.session.tell, AgentAction.UNLOAD_COMPLETE))
