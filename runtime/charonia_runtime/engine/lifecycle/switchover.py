"""
Brings the versions of one model to what was read of it: all of them take over together or none does.

The part of a load that takes time; who may do it when is `engine.loading`'s business.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NoReturn

from charonia_runtime.core.errors import (
    InferenceError,
    InternalError,
    InvalidArgumentError,
    UnsupportedError,
    without_traceback,
)
from charonia_runtime.engine.error_advice import advise_on_error
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.lifecycle.folder_advice import advise_on_version
from charonia_runtime.engine.lifecycle.live_copies import LiveCopies
from charonia_runtime.engine.lifecycle.reading import PolledModel
from charonia_runtime.engine.lifecycle.reload_plan import ReloadPlan, plan_reload
from charonia_runtime.engine.registry import ModelRegistry
from charonia_runtime.thread_pools import LOADING

logger = logging.getLogger(__name__)

Create = Callable[[PolledModel, int], Awaitable[ModelCopy]]
"""Makes a ready copy of one version. Raises InferenceError."""
Outcome = ModelCopy | InferenceError | None
"""What became of one version: its new copy, why there is none, or None where its copy was updated in place."""


class Switchover:
    """Makes new copies beside those that serve, then switches in one step. `retire` ends copies that serve no more."""

    def __init__(
        self,
        registry: ModelRegistry,
        create: Create,
        copies: LiveCopies,
        retire: Callable[[str, ModelCopy], None],
        *,
        parallel: int,
        retries: int,
    ) -> None:
        """`parallel` versions load at the same time; each failing load is tried `retries` times more."""
        self._registry = registry
        self._create = create
        self._copies = copies
        self._retire = retire
        self._slots = asyncio.Semaphore(parallel)
        self._retries = retries

    async def run(self, polled: PolledModel, current: PolledModel | None) -> None:
        """
        From what serves, loaded from `current`, to `polled`; every version anew where `current` is None.

        Raises InvalidArgumentError with the reasons of all versions that cannot be loaded; then all is as it was.
        """
        name = polled.identifier
        serving = self._registry.ready(name)
        plan = plan_reload(polled, current, serving)
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
                logger.warning("retrying to load '%s' version %d: %s", polled.identifier, number, outcome.reason)
        raise AssertionError("there is at least one attempt")

    async def _try_once(self, polled: PolledModel, number: int, serving: ModelCopy | None) -> Outcome:
        try:
            if serving is not None and await _updated(serving, polled):
                return None
            copy = await self._create(polled, number)
        except InferenceError as error:
            without_traceback(error)
            folder = polled.entry.version_directory(number)
            advice = await LOADING.run(partial(advise_on_version, folder, polled.config))
            return type(error)(f"{error.message}. {advice}") if advice else error
        except Exception as error:
            logger.exception("unexpected error while loading '%s' version %d", polled.identifier, number)
            return InternalError(f"{type(error).__name__}: {error}")
        self._copies.add(copy, polled)
        return copy

    def _finish(self, polled: PolledModel, plan: ReloadPlan, outcomes: dict[int, Outcome]) -> None:
        """All versions are there: switch over, in one step. Otherwise leave everything as it was."""
        failures = {number: one for number, one in outcomes.items() if isinstance(one, InferenceError)}
        created = {
            number: one for number, one in outcomes.items() if one is not None and not isinstance(one, InferenceError)
        }
        self._registry.keep(polled.identifier, outcomes.keys() - failures.keys() - created.keys())
        if failures:
            self._give_up(polled, created, failures)
        replaced = self._registry.complete_load(polled.identifier, created)
        for copy in replaced:
            self._retire(polled.identifier, copy)
        for number in plan.drop:
            self._retire(polled.identifier, self._registry.begin_unload(polled.identifier, number))
        logger.info("successfully loaded '%s'", polled.identifier)

    def _give_up(
        self, polled: PolledModel, created: dict[int, ModelCopy], failures: dict[int, InferenceError]
    ) -> NoReturn:
        name = polled.identifier
        for number, error in failures.items():
            self._registry.fail(name, number, error)
            logger.error(
                "failed to load '%s' version %d: %s%s", name, number, error.reason, advise_on_error(error.message)
            )
        for number, copy in created.items():
            self._registry.abandon(name, number, copy)
            self._retire(name, copy)
        logger.info("failed to load '%s'", name)
        clauses = "".join(
            f"version {number} is at UNAVAILABLE state: {error.reason};" for number, error in failures.items()
        )
        raise InvalidArgumentError(clauses)


async def _updated(serving: ModelCopy, polled: PolledModel) -> bool:
    """Whether the copy that serves could take over the configuration."""
    try:
        await serving.update_instances(polled.config)
    except UnsupportedError:
        return False
    return True
