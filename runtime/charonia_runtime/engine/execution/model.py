"""One loaded version of a model: its life from load to close, and the way in for requests."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial

from charonia_runtime.core.backend import Backend, ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.instances import placements, resolve_instance_groups
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.scheduling import DynamicBatching, OldestStrategy, SequenceBatching
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.engine.execution.admission import Admission, MemoryResolver
from charonia_runtime.engine.execution.answers import Labels
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.execution.flow import RequestFlow
from charonia_runtime.engine.execution.instance import Post, Runner, make_runner
from charonia_runtime.engine.execution.limited_flow import LimitedFlow, LimitedSequenceFlow
from charonia_runtime.engine.execution.ordering import ResponseOrder
from charonia_runtime.engine.execution.rate_limiter import RateLimiter
from charonia_runtime.engine.execution.sequence_flow import SequenceFlow
from charonia_runtime.engine.execution.version_loading import LoadedBackend, load_backend
from charonia_runtime.engine.execution.warmup import run_warmup
from charonia_runtime.engine.schedulers.sequence.scheduler import SequenceScheduler
from charonia_runtime.protocols.model_config import complete
from charonia_runtime.thread_pools import LOADING, UNLOADING

logger = logging.getLogger(__name__)


class Model:
    """
    A version that serves. Belongs to the event loop's thread.

    Every request that `submit` accepts is answered finally, exactly once.
    """

    def __init__(
        self,
        loaded: LoadedBackend,
        *,
        resolve_memory: MemoryResolver | None = None,
        limiter: RateLimiter | None = None,
        delay_scheduler: int = 0,
        delay_backlog: int = 0,
    ) -> None:
        """Without instances yet; `load` is the way to one that serves."""
        self.config = loaded.config
        self.version = loaded.files.version
        self._loaded = loaded
        admission = Admission(loaded.config, resolve_memory)
        self._limiter = limiter
        self._flow = _make_flow(
            loaded, admission, limiter, delay_scheduler=delay_scheduler, delay_backlog=delay_backlog
        )
        self._runners: list[Runner] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._retiring: list[Runner] = []
        """Those that take no more requests and still run some."""
        self._slots = 0
        self._closing: asyncio.Task[None] | None = None
        """Where nobody waits for it: the event loop itself knows its tasks only weakly."""

    @classmethod
    async def load(
        cls,
        files: ModelFiles,
        config: ModelConfig,
        backend_class: type[Backend],
        *,
        auto_complete: bool = True,
        allow_strategies: bool = False,
        parallel_instances: bool | None = None,
        resolve_memory: MemoryResolver | None = None,
        limiter: RateLimiter | None = None,
        delay_scheduler: int = 0,
        delay_backlog: int = 0,
    ) -> "Model":
        """
        A version that is ready to serve: loaded, with all its instances, warmed up.

        `allow_strategies` lets the model's own `batchstrategy.py` run in this process.
        `parallel_instances` overrides the backend's own word on creating instances at the same time.
        `resolve_memory` finds the shared memory that requests name. Instances take turns with those of other models
        that have the same `limiter`. `delay_scheduler` is the number of requests that must wait before the first is
        scheduled, `delay_backlog` that in a sequence batcher's backlog (hooks for tests).
        Raises InferenceError, with everything closed again. When it is cancelled, the load ends in the background and
        is closed then: a library cannot be stopped half-way.
        """

        async def load() -> Model:
            loaded = await LOADING.run(
                partial(
                    load_backend,
                    files,
                    config,
                    backend_class,
                    auto_complete=auto_complete,
                    allow_strategies=allow_strategies,
                )
            )
            model = cls(
                loaded,
                resolve_memory=resolve_memory,
                limiter=limiter,
                delay_scheduler=delay_scheduler,
                delay_backlog=delay_backlog,
            )
            parallel = backend_class.traits.parallel_instances if parallel_instances is None else parallel_instances
            try:
                await model._add_instances(loaded.placements, parallel=parallel)
            except InferenceError:
                await model.close()
                raise
            return model

        loading = asyncio.create_task(load())
        try:
            return await asyncio.shield(loading)
        except asyncio.CancelledError:
            loading.add_done_callback(_close_unwanted)
            raise
        finally:
            del loading  # it keeps the error, which keeps this frame

    @property
    def statistics(self) -> ModelStatistics:
        return self._flow.statistics

    @property
    def labels(self) -> Labels:
        return self._loaded.finisher.labels

    @property
    def composing(self) -> tuple[ModelCopy, ...]:
        return ()

    @property
    def in_flight(self) -> int:
        """Requests accepted and not finally answered."""
        return self._flow.in_flight

    @property
    def ready(self) -> bool:
        """Whether an instance can run a request now."""
        return any(runner.ready for runner in self._runners)

    async def agrees(self) -> bool:
        """Whether every instance that can run a request says that it is ready, as the model sees it itself."""
        return all(await asyncio.gather(*(runner.agrees() for runner in self._runners if runner.ready)))

    @property
    def takes_device_tensors(self) -> bool:
        """Whether inputs may lie on a GPU: every instance is on one, and the backend reads them there."""
        groups = self.config.instance_groups
        return self._loaded.backend.traits.device_inputs and all(group.kind is InstanceKind.GPU for group in groups)

    def submit(self, request: InferenceRequest) -> None:
        """
        Check and queue a request.

        Raises InferenceError when it is refused; then its sink hears nothing and it is not counted.
        """
        self._flow.submit(request)

    def cancel(self, request: InferenceRequest) -> None:
        """Answer a request that waits with CancelledError, flag one that runs."""
        self._flow.cancel(request)
        for runner in (*self._runners, *self._retiring):
            runner.note_cancelled()

    async def drain(self) -> None:
        """Wait until every accepted request is answered."""
        await self._flow.drain()

    @property
    def live_sequences(self) -> int:
        return self._flow.live_sequences

    def end_sequences(self) -> None:
        """Begin no new sequences; those that live go on."""
        self._flow.end_sequences()

    def wind_up(self) -> None:
        """No request will be submitted any more: instances may give up what will never be answered."""
        for runner in self._runners:
            runner.wind_up()

    async def close(self) -> None:
        """
        Accept nothing more, refuse what waits, finish what runs, free instances and backend.

        Returns when that is done: a model that hangs keeps it waiting. What a backend raises is logged.
        """
        self._flow.stop()
        runners, self._runners = self._runners, []
        self._retiring += runners
        await asyncio.gather(*(self._retire(runner) for runner in runners), *self._leaving)
        await UNLOADING.run(self._close_backend)

    async def update_instances(self, config: ModelConfig) -> None:
        """
        Take over the instance groups and the version policy of `config` without a reload.

        Instances of the same kind, device and profiles stay; new ones are created, then surplus ones are closed after
        their batch, or in the background once their sequences are over. Raises InferenceError; then the model serves on
        as it was.
        """
        files, backend = self._loaded.files, self._loaded.backend
        changed = complete(
            replace(self.config, instance_groups=config.instance_groups, version_policy=config.version_policy)
        )
        changed = complete(resolve_instance_groups(changed, backend.traits, files.gpus))
        missing, surplus = _compare(self._runners, placements(changed))
        await self._add_instances(missing, parallel=backend.traits.parallel_instances)
        self.config = changed
        for runner in surplus:
            self._runners.remove(runner)
            self._retiring.append(runner)
        bound = [runner for runner in surplus if not self._flow.relieve(runner)]
        for runner in bound:
            task = asyncio.create_task(self._retire_when_vacated(runner))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        await asyncio.gather(*(self._retire(runner) for runner in surplus if runner not in bound))

    async def _add_instances(self, wanted: Sequence[Placement], *, parallel: bool) -> None:
        """Create, warm up and put to work. Raises InferenceError; then none of them stays."""
        if self._limiter is not None:
            self._limiter.check(wanted)
        added: list[Runner] = []
        try:
            if parallel:
                await _all(self._add_instance(placement, added) for placement in wanted)
            else:
                for placement in wanted:
                    await self._add_instance(placement, added)
        except InferenceError:
            await asyncio.gather(*(runner.close() for runner in added))
            raise
        self._runners += added
        self._flow.add([runner for runner in added if not runner.placement.passive])

    async def _add_instance(self, placement: Placement, added: list[Runner]) -> None:
        loaded = self._loaded
        instance = await LOADING.run(partial(loaded.create_instance, placement))
        self._slots += 1
        post = Post(placement, self._slots, loaded.config, self.version, loaded.finisher, loaded.backend.traits)
        runner = make_runner(instance, post, self._flow)
        added.append(runner)
        for warmup in loaded.warmups:
            await run_warmup(
                warmup, loaded.config, placement.name, lambda requests: self._flow.execute(runner, requests)
            )

    async def _retire(self, runner: Runner) -> None:
        self._flow.remove(runner)
        try:
            await runner.close()
        finally:
            self._retiring.remove(runner)

    async def _retire_when_vacated(self, runner: Runner) -> None:
        await self._flow.vacated(runner)
        await self._retire(runner)

    def _close_backend(self) -> None:
        try:
            self._loaded.close()
        except Exception:
            logger.exception("model '%s' version %d: closing the backend failed", self.config.name, self.version)


def _compare(runners: Sequence[Runner], wanted: Sequence[Placement]) -> tuple[list[Placement], list[Runner]]:
    """The instances that are missing, the last ones of their group, and the runners that are too many."""
    present = Counter(_like(runner.placement) for runner in runners)
    missing = []
    for placement in wanted:
        if present[_like(placement)]:
            present[_like(placement)] -= 1
        else:
            missing.append(placement)
    surplus = []
    for runner in reversed(runners):
        if present[_like(runner.placement)]:
            present[_like(runner.placement)] -= 1
            surplus.append(runner)
    return missing, surplus


def _close_unwanted(loading: asyncio.Task[Model]) -> None:
    """Close what a cancelled load has come to."""
    if not loading.cancelled() and loading.exception() is None:
        model = loading.result()
        model._closing = loading.get_loop().create_task(model.close())  # noqa: SLF001 - of this module


async def _all(steps: Iterable[Coroutine[None, None, None]]) -> None:
    """Wait for every step, then raise the first error of any."""
    for result in await asyncio.gather(*steps, return_exceptions=True):
        if result is not None:
            raise result


def _make_flow(
    loaded: LoadedBackend,
    admission: Admission,
    limiter: RateLimiter | None,
    *,
    delay_scheduler: int,
    delay_backlog: int,
) -> RequestFlow:
    version, scheduler, order = loaded.files.version, loaded.scheduler, _make_order(loaded.config)
    if isinstance(scheduler, SequenceScheduler):
        make_sequence_flow = SequenceFlow if limiter is None else partial(LimitedSequenceFlow, limiter)
        return make_sequence_flow(
            version, admission, scheduler, order, delay_scheduler=delay_scheduler, delay_backlog=delay_backlog
        )
    make_flow = RequestFlow if limiter is None else partial(LimitedFlow, limiter)
    return make_flow(version, admission, scheduler, order, delay_scheduler=delay_scheduler)


def _make_order(config: ModelConfig) -> ResponseOrder | None:
    batching = config.scheduling
    if isinstance(batching, SequenceBatching):
        return _order_if(isinstance(batching.strategy, OldestStrategy) and batching.strategy.preserve_ordering)
    return _order_if(isinstance(batching, DynamicBatching) and batching.preserve_ordering)


def _order_if(wanted: bool) -> ResponseOrder | None:
    return ResponseOrder() if wanted else None


def _like(placement: Placement) -> Placement:
    """Equal for instances that are interchangeable: whatever their names, their groups say the same."""
    return replace(placement, name="")
