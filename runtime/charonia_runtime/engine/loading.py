"""
Loads and unloads models: the part of the life cycle that takes time. `engine.registry` holds what it results in.

All versions of a load are one unit: they take over together or not at all. Operations on one model wait for each
other; different models load in parallel, as many as the options allow.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NoReturn, Protocol

from charonia_runtime.core.errors import (
    InferenceError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    UnsupportedError,
)
from charonia_runtime.engine.copies import ModelCopy
from charonia_runtime.engine.file_threads import FileThreads
from charonia_runtime.engine.locks import NamedLocks
from charonia_runtime.engine.reading import Override, PolledModel, PollError, log_passed_over
from charonia_runtime.engine.registry import ModelRegistry
from charonia_runtime.engine.reload_plan import ReloadPlan, is_modified, plan_reload

logger = logging.getLogger(__name__)

Create = Callable[[PolledModel, int], Awaitable[ModelCopy]]
"""Makes a ready copy of one version. Raises InferenceError."""


class Reader(Protocol):
    """Reads one model from disk; blocks. Raises PollError."""

    def __call__(self, name: str, override: Override | None = None) -> PolledModel: ...


Outcome = ModelCopy | InferenceError | None
"""What became of one version: its new copy, why there is none, or None where its copy was updated in place."""


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
        self._create = create
        self._files = files
        self._slots = asyncio.Semaphore(parallel)
        self._retries = retries
        self._locks = NamedLocks()
        self._current: dict[str, PolledModel] = {}
        """What the serving versions of each model were loaded from."""
        self._copies: dict[ModelCopy, PolledModel] = {}
        """Every copy that is not closed yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    # --- questions ---

    @property
    def copies(self) -> list[ModelCopy]:
        """Every copy that serves or still finishes requests."""
        return list(self._copies)

    def busy(self, name: str) -> bool:
        """Whether a load or unload of the model is under way."""
        return self._locks.busy(name)

    # --- operations ---

    async def load(self, name: str, override: Override | None = None) -> None:
        """
        Load or reload; returns when the model serves. Nothing happens when it serves and is not modified.

        Raises InternalError when the model cannot be read, InvalidArgumentError when it cannot be loaded
        (model-config §1). Whatever served before goes on serving then.
        """
        await self._run(self._load(name, override))

    async def unload(self, name: str, *, forget: bool = False) -> None:
        """
        Stop serving the model; its requests in flight finish after this returns. Unknown models are no error.

        `forget` also lets go of versions that could not be loaded, because the model's directory is gone.
        """
        await self._run(self._unload(name, forget=forget))

    async def unload_all(self) -> None:
        """Stop serving everything, for good; returns when every copy is closed."""
        self._stopping = True
        while self._copies or self._tasks:
            await asyncio.gather(*(self.unload(name) for name in self._registry.names()))
            await self.settle()

    async def settle(self) -> None:
        """Return once nothing is loading, unloading or finishing."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    # --- loading ---

    async def _load(self, name: str, override: Override | None) -> None:
        async with self._locks.hold(name):
            if self._stopping:
                raise UnavailableError("Server exiting")
            polled = await self._poll(name, override)
            self._registry.know(name)
            if self._is_done(polled):
                return
            try:
                await self._replace(polled)
            finally:
                await self._remove_unused(polled)

    async def _poll(self, name: str, override: Override | None) -> PolledModel:
        try:
            return await self._files.run(partial(self._read, name, override))
        except PollError as error:
            logger.error("%s", error)  # noqa: TRY400 - expected, a traceback would say nothing
            cause: Exception = error
        except Exception as error:
            logger.exception("failed to poll model '%s'", name)
            cause = error
        raise InternalError(f"failed to load '{name}', failed to poll from model repository") from cause

    def _is_done(self, polled: PolledModel) -> bool:
        current = self._current.get(polled.name)
        if current is None or is_modified(polled, current):
            return False
        return self._registry.ready(polled.name).keys() == set(polled.versions)

    async def _replace(self, polled: PolledModel) -> None:
        name = polled.name
        log_passed_over(polled)
        if not polled.versions:
            text = f"at least one version must be available under the version policy of model '{name}'"
            logger.error("failed to load model '%s': %s", name, text)
            raise InvalidArgumentError(f"load failed for model '{name}': {text}\n")
        serving = self._registry.ready(name)
        plan = plan_reload(polled, self._current.get(name), serving)
        self._registry.begin_load(name, polled.versions)
        for number in polled.versions:
            logger.info("loading: %s:%d", name, number)
        outcomes = await asyncio.gather(
            *(
                self._attempt(polled, number, serving.get(number) if number in plan.update else None)
                for number in polled.versions
            )
        )
        self._finish(polled, plan, dict(zip(polled.versions, outcomes, strict=True)))

    async def _attempt(self, polled: PolledModel, number: int, serving: ModelCopy | None) -> Outcome:
        """Bring one version to `polled`: `serving` updated in place where possible, else a new copy."""
        async with self._slots:
            for left in reversed(range(self._retries + 1)):
                outcome = await self._try_once(polled, number, serving)
                if not (left and isinstance(outcome, InferenceError)):
                    return outcome
                logger.warning("retrying to load '%s' version %d: %s", polled.name, number, outcome.reason)
        raise AssertionError("there is at least one attempt")

    async def _try_once(self, polled: PolledModel, number: int, serving: ModelCopy | None) -> Outcome:
        try:
            if serving is not None and await _updated(serving, polled):
                return None
            copy = await self._create(polled, number)
        except InferenceError as error:
            return error
        except Exception as error:
            logger.exception("unexpected error while loading '%s' version %d", polled.name, number)
            return InternalError(f"{type(error).__name__}: {error}")
        self._copies[copy] = polled
        return copy

    def _finish(self, polled: PolledModel, plan: ReloadPlan, outcomes: dict[int, Outcome]) -> None:
        """All versions are there: switch over, in one step. Otherwise leave everything as it was."""
        failures = {number: one for number, one in outcomes.items() if isinstance(one, InferenceError)}
        created = {
            number: one for number, one in outcomes.items() if one is not None and not isinstance(one, InferenceError)
        }
        self._registry.keep(polled.name, outcomes.keys() - failures.keys() - created.keys())
        if failures:
            self._give_up(polled, created, failures)
        replaced = self._registry.complete_load(polled.name, created)
        self._current[polled.name] = polled
        for copy in replaced:
            self._retire(polled.name, copy)
        for number in plan.drop:
            self._retire(polled.name, self._registry.begin_unload(polled.name, number))
        logger.info("successfully loaded '%s'", polled.name)

    def _give_up(
        self, polled: PolledModel, created: dict[int, ModelCopy], failures: dict[int, InferenceError]
    ) -> NoReturn:
        name = polled.name
        for number, error in failures.items():
            self._registry.fail(name, number, error)
            logger.error("failed to load '%s' version %d: %s", name, number, error.reason)
        for number, copy in created.items():
            self._registry.abandon(name, number, copy)
            self._retire(name, copy)
        logger.info("failed to load '%s'", name)
        clauses = "".join(
            f"version {number} is at UNAVAILABLE state: {error.reason};" for number, error in failures.items()
        )
        raise InvalidArgumentError(f"load failed for model '{name}': {clauses}\n")

    # --- unloading ---

    async def _unload(self, name: str, *, forget: bool) -> None:
        async with self._locks.hold(name):
            self._current.pop(name, None)
            for number in self._registry.ready(name):
                self._retire(name, self._registry.begin_unload(name, number))
            if forget:
                self._registry.forget_failures(name)

    def _retire(self, name: str, copy: ModelCopy) -> None:
        """Close a copy that serves no more, once its last request is answered."""
        self._track(asyncio.create_task(self._close(name, copy)))

    async def _close(self, name: str, copy: ModelCopy) -> None:
        try:
            await copy.drain()
            await copy.close()
        except Exception:
            logger.exception("failed to unload '%s' version %d", name, copy.version)
        polled = self._copies.pop(copy)
        self._registry.closed(name, copy.version, copy)
        logger.info("successfully unloaded '%s' version %d", name, copy.version)
        await self._remove_unused(polled)

    async def _remove_unused(self, polled: PolledModel) -> None:
        """Delete the files of a load request when no copy uses them."""
        directory = polled.override_directory
        if directory is not None and all(other is not polled for other in self._copies.values()):
            await self._files.run(directory.remove)

    # --- tasks ---

    async def _run(self, operation: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(operation)
        self._track(task)
        await asyncio.shield(task)

    def _track(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked has it, unless they went away: then it is in the log already


async def _updated(serving: ModelCopy, polled: PolledModel) -> bool:
    """Whether the copy that serves could take over the configuration."""
    try:
        await serving.update_instances(polled.config)
    except UnsupportedError:
        return False
    return True
