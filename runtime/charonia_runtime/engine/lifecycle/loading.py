"""
Loads and unloads models: the part of the life cycle that takes time. `engine.registry` holds what it results in.

All versions of a load are one unit: they take over together or not at all. Operations on one model wait for each
other; different models load in parallel, as many as the options allow.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from charonia_runtime.core.errors import (
    InferenceError,
    InvalidArgumentError,
    UnavailableError,
    without_traceback,
)
from charonia_runtime.core.missing_models import unreadable_model
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.engine.ensembles.binding import bind, composing_models
from charonia_runtime.engine.error_advice import advise_on_error
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.lifecycle.agent_notices import AgentNotices
from charonia_runtime.engine.lifecycle.dependencies import CircularDependencyError, Dependencies, find_circle
from charonia_runtime.engine.lifecycle.file_threads import FileThreads
from charonia_runtime.engine.lifecycle.folder_advice import advise_on_no_version
from charonia_runtime.engine.lifecycle.live_copies import LiveCopies
from charonia_runtime.engine.lifecycle.locks import NamedLocks
from charonia_runtime.engine.lifecycle.reading import (
    NoSuchModelError,
    Override,
    PolledModel,
    PollError,
    log_passed_over,
)
from charonia_runtime.engine.lifecycle.reload_plan import is_modified
from charonia_runtime.engine.lifecycle.switchover import Create, Switchover
from charonia_runtime.engine.registry import ModelRegistry

logger = logging.getLogger(__name__)


class Reader(Protocol):
    """Reads one model from disk; blocks. Raises PollError."""

    def __call__(self, identifier: str, /, override: Override | None = None) -> PolledModel: ...


class _Round:
    """Loads that belong together: each model is loaded once, an ensemble after its models."""

    __slots__ = ("composing", "patient", "tasks")

    def __init__(self, *, patient: bool = True) -> None:
        """`patient`: whether ensembles wait for loads of their models that others have begun."""
        self.patient = patient
        self.tasks: dict[str, asyncio.Task[InferenceError | None]] = {}
        self.composing: dict[str, tuple[str, ...]] = {}
        """Each ensemble that was read in this round, with its models."""


class ModelLoader:
    """Loads, reloads and unloads. Every operation runs to its end, even when whoever asked for it goes away."""

    def __init__(
        self,
        registry: ModelRegistry,
        read: Reader,
        create: Create,
        files: FileThreads,
        *,
        parallel: int = 4,
        retries: int = 0,
    ) -> None:
        """`parallel` versions load at the same time; each failing load is tried `retries` times more."""
        self._registry = registry
        self._read = read
        self._files = files
        self._locks = NamedLocks()
        self._notices = AgentNotices(files)
        self._copies = LiveCopies(registry, files, self._notices)
        self._switchover = Switchover(registry, create, self._copies, self._retire, parallel=parallel, retries=retries)
        self._dependencies = Dependencies()
        self._current: dict[str, PolledModel] = {}
        """What the serving versions of each model were loaded from."""
        self._ensembles: dict[str, PolledModel] = {}
        """Every ensemble as it was last read, until it is unloaded: its models bring it back when they are."""
        self._failures: dict[str, str] = {}
        """Why the last load of a model failed."""
        self._unreadable: dict[str, str] = {}
        """Why the files of a model could not be read last time, as the log has it."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False

    # --- questions ---

    @property
    def copies(self) -> list[ModelCopy]:
        """Every copy that serves or still finishes requests."""
        return list(self._copies)

    @property
    def failures(self) -> Mapping[str, str]:
        """Why the last load of a model failed, by model."""
        return self._failures

    @property
    def complaints(self) -> Mapping[str, str]:
        """Why a model does not serve, by model: its last load failed, or its files could not even be read."""
        return {**self._unreadable, **self._failures}

    def busy(self, name: str) -> bool:
        """Whether a load or unload of the model is under way."""
        return self._locks.busy(name)

    # --- operations ---

    async def load(self, name: str, override: Override | None = None) -> None:
        """`load_each` of one model."""
        await self.load_each((name,), override)

    async def load_each(self, names: Iterable[str], override: Override | None = None) -> None:
        """
        Load or reload; returns when the models serve. Nothing happens to those that serve and are not modified.

        The models of an ensemble are loaded first, the ensembles made of a model anew after it.
        Raises InternalError when a model cannot be read, InvalidArgumentError when it cannot be loaded. Whatever
        served before goes on serving then.
        """
        load_round = _Round()
        tasks = [self._in_round(load_round, name, override, asked_for=True) for name in names]
        error = next(filter(None, await asyncio.shield(asyncio.gather(*tasks))), None)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame

    async def load_all(self, names: Iterable[str], *, patient: bool = True) -> bool:
        """
        Load several; whether all of them serve. Causes are in the log.

        Unless `patient`, ensembles do without models that are being loaded already: those bring them back.
        """
        load_round = _Round(patient=patient)
        tasks = [self._in_round(load_round, name, asked_for=True) for name in names]
        results = await asyncio.shield(asyncio.gather(*tasks))
        return not any(results)

    async def unload(self, name: str, *, forget: bool = False, unload_dependents: bool = False) -> None:
        """
        Stop serving the model; its requests in flight finish after this returns. Unknown models are no error.

        Ensembles made of it stop too. `unload_dependents` also stops the models that it is made of, those that nobody
        asked for and no other ensemble needs. `forget` also lets go of versions that could not be loaded, because the
        model's directory is gone.
        """
        await self._run(self._unload(name, forget=forget, unload_dependents=unload_dependents))

    async def unload_all(self) -> None:
        """Stop serving everything, for good; returns when every copy is closed."""
        self._stopping = True
        while self._copies or self._tasks:
            await asyncio.gather(*(self.unload(name) for name in self._registry.identifiers()))
            await self.settle()

    async def settle(self) -> None:
        """Return once nothing is loading, unloading or finishing."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    # --- loading ---

    def _in_round(
        self, load_round: _Round, name: str, override: Override | None = None, *, asked_for: bool = False
    ) -> asyncio.Task[InferenceError | None]:
        """The load of a model in this round, begun unless it is already; its result is why it failed."""
        task = load_round.tasks.get(name)
        if task is None:
            task = load_round.tasks[name] = asyncio.create_task(self._outcome(name, override, load_round, asked_for))
            self._track(task)
        return task

    async def _outcome(
        self, name: str, override: Override | None, load_round: _Round, asked_for: bool
    ) -> InferenceError | None:
        """Load a model. An error is returned: raised, it would keep the round, which would keep it."""
        try:
            await self._load(name, override, load_round, asked_for)
        except InferenceError as error:
            return without_traceback(error)
        return None

    async def _load(self, name: str, override: Override | None, load_round: _Round, asked_for: bool) -> None:
        async with self._locks.hold(name):
            if self._stopping:
                raise UnavailableError("Server exiting")
            polled = await self._poll(name, override)
            self._registry.know(name, polled.name, polled.entry.namespace)
            composing = self._remember(polled, asked_for)
            changed = False if composing else await self._bring_up(polled)
        if composing:
            changed = await self._bring_up_ensemble(polled, composing, load_round)
        if changed:
            await self._refresh_dependents(name, load_round)

    def _remember(self, polled: PolledModel, asked_for: bool) -> tuple[str, ...]:
        composing = composing_models(polled.config)
        self._dependencies.know(polled.identifier, composing)
        if asked_for:
            self._dependencies.ask_for(polled.identifier)
        if composing:
            self._ensembles[polled.identifier] = polled
        else:
            self._ensembles.pop(polled.identifier, None)
        return composing

    async def _bring_up(self, polled: PolledModel) -> bool:
        """Make the model serve what was read of it; whether other copies serve now than before."""
        before = self._registry.ready(polled.identifier)
        try:
            if not self._is_done(polled):
                await self._admit(polled)
                await self._replace(polled)
        finally:
            await self._copies.remove_unused(polled)
        return self._registry.ready(polled.identifier) != before

    async def _poll(self, name: str, override: Override | None) -> PolledModel:
        try:
            polled = await self._files.run(partial(self._read, name, override))
        except PollError as error:
            cause, is_known = str(error), not isinstance(error, NoSuchModelError)
            logger.error("%s%s", cause, advise_on_error(cause))  # noqa: TRY400 - expected, a traceback would say nothing
        except Exception as error:
            logger.exception("failed to poll model '%s'", name)
            cause, is_known = str(error), True
        else:
            self._unreadable.pop(name, None)
            return polled
        self._failures.pop(name, None)
        if override is None and is_known:  # else clients could fill it with names
            self._unreadable[name] = cause
        raise unreadable_model(name)

    async def _admit(self, polled: PolledModel) -> None:
        """Ask the model's agents. Raises InternalError, as for a model that cannot be read, when one refuses it."""
        try:
            await self._notices.begin_load(polled)
        except InferenceError as error:
            logger.error("Poll failed for model directory '%s': %s", polled.identifier, error.message)  # noqa: TRY400
            raise unreadable_model(polled.identifier) from error

    def _is_done(self, polled: PolledModel) -> bool:
        name, current = polled.identifier, self._current.get(polled.identifier)
        if current is None or is_modified(polled, current) or not self._is_bound(current):
            return False
        return self._registry.ready(name).keys() == set(polled.versions)

    async def _replace(self, polled: PolledModel) -> None:
        name, current = polled.identifier, self._current.get(polled.identifier)
        log_passed_over(polled)
        try:
            advice = "" if polled.versions else await self._files.run(partial(advise_on_no_version, polled.entry))
            self._check(polled, advice)
            await self._switchover.run(polled, None if composing_models(polled.config) else current)
        except InvalidArgumentError as error:
            self._failures[name] = error.message
            await self._notices.fail_load(name)
            if current is not None and not self._is_bound(current):
                await self._stop_serving(name)
            raise InvalidArgumentError(f"load failed for model '{name}': {error.message}\n") from error
        self._failures.pop(name, None)
        self._current[name] = polled
        await self._notices.complete_load(name, self._registry.ready(name).values())

    def _check(self, polled: PolledModel, advice: str) -> None:
        """
        What keeps the model from being loaded before any of its versions is touched. Raises InvalidArgumentError.

        `advice` is what to do where it has no version.
        """
        name, scheduling = polled.identifier, polled.config.scheduling
        text = ""
        if not polled.versions:
            text = f"at least one version must be available under the version policy of model '{name}'. {advice}"
        elif isinstance(scheduling, Ensemble):
            try:
                bind(polled.config, scheduling, self._registry, self._failures)
            except InvalidArgumentError as error:
                text = error.message
        if text:
            logger.error("failed to load model '%s': %s%s", name, text, advise_on_error(text))
            raise InvalidArgumentError(text)

    # --- ensembles ---

    async def _bring_up_ensemble(self, polled: PolledModel, composing: Sequence[str], load_round: _Round) -> bool:
        """Not under the lock while its models load: those wait for it when they are done."""
        await self._load_composing(polled, composing, load_round)
        async with self._locks.hold(polled.identifier):
            if self._stopping:
                raise UnavailableError("Server exiting")
            return await self._bring_up(polled)

    async def _load_composing(self, polled: PolledModel, composing: Sequence[str], load_round: _Round) -> None:
        """Load the models of an ensemble, or wait until this round has. Their failures are found by `bind`."""
        name = polled.identifier
        load_round.composing[name] = tuple(composing)
        last = find_circle(load_round.composing, name)
        if last is not None:
            raise self._circular(name, f"circular dependency between ensembles: {name} -> ... -> {last} -> {name}")
        tasks = [
            self._in_round(load_round, model)
            for model in composing
            if load_round.patient or model in load_round.tasks or not self.busy(model)
        ]
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(error, CircularDependencyError):
                raise self._circular(name, error.circle)

    def _circular(self, name: str, circle: str) -> CircularDependencyError:
        logger.error("failed to load model '%s': %s", name, circle)
        self._failures[name] = circle
        return CircularDependencyError(name, circle)

    def _is_bound(self, polled: PolledModel) -> bool:
        """Whether the copies that serve have no better models than they were made with; so it is for plain models."""
        scheduling = polled.config.scheduling
        if not isinstance(scheduling, Ensemble):
            return True
        try:
            _, copies = bind(polled.config, scheduling, self._registry, self._failures)
        except InvalidArgumentError:
            return False
        return all(copy.composing == copies for copy in self._registry.ready(polled.identifier).values())

    async def _refresh_dependents(self, name: str, load_round: _Round) -> None:
        """Other copies of the model serve now, or none: its ensembles are made anew, or stop, or come back."""
        dependents = [one for one in self._dependencies.dependents(name) if one not in load_round.tasks]
        await asyncio.gather(*(self._refresh(one, load_round) for one in dependents))

    async def _refresh(self, name: str, load_round: _Round) -> None:
        async with self._locks.hold(name):
            polled = self._ensembles.get(name)
            if polled is None or self._stopping:
                return
            before = self._registry.ready(name)
            try:
                await self._bring_up(polled)
            except InferenceError as error:
                logger.debug("ensemble '%s' does not serve: %s", name, error.message)
            changed = self._registry.ready(name) != before
        if changed:
            await self._refresh_dependents(name, load_round)

    # --- unloading ---

    async def _unload(self, name: str, *, forget: bool = False, unload_dependents: bool = False) -> None:
        async with self._locks.hold(name):
            self._ensembles.pop(name, None)
            self._failures.pop(name, None)
            self._unreadable.pop(name, None)
            unneeded = self._dependencies.forget(name)
            await self._stop_serving(name)
            self._registry.drop(name)
            if forget:
                self._registry.forget_failures(name)
        await self._refresh_dependents(name, _Round())
        if unload_dependents:
            for model in unneeded:
                await self._unload(model, unload_dependents=True)

    async def _stop_serving(self, name: str) -> None:
        self._current.pop(name, None)
        await self._notices.begin_unload(name)
        for number in self._registry.ready(name):
            self._retire(name, self._registry.begin_unload(name, number))

    def _retire(self, name: str, copy: ModelCopy) -> None:
        """Close a copy that serves no more, once its last request is answered."""
        self._track(asyncio.create_task(self._copies.end(name, copy)))

    # --- tasks ---

    async def _run(self, operation: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(operation)
        self._track(task)
        await asyncio.shield(task)

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked has it, unless they went away: then it is in the log already
