"""
`charonia serve`: wire engine and frontends together, run until a signal, drain, say how it ended.

The start: sockets and files of the frontends are opened first, then models are loaded. Meanwhile the server is live and
not ready, and models that are loaded already serve. (Triton opens its ports when all models are loaded.)

The end, from the first SIGTERM or SIGINT on. While models load, the process ends with the exit code 0. Else:

1. For `--drain-secs` the server is not ready but serves on: load balancers turn away, HTTP connections close with their
   next answer, gRPC clients are told to take their next call elsewhere (those of grpcio go when their connection ages).
2. While sequences live, no others begin; everything else is served on, for half of the time below at most.
3. HTTP accepts nothing new, answers what is in flight and closes idle connections; then gRPC does the same.
4. The engine finishes what models still call, and unloads them.
5. The metrics are closed, and what is left of the traces is written. The process exits.

Phases 2 to 5 share `--exit-timeout-secs`. A second signal ends phase 1, one during the others the process, with the
exit code 1; so does time that is over while something hangs.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from charonia_runtime import __version__, interpreter, service_manager
from charonia_runtime.access_files import AccessFiles
from charonia_runtime.backends import load_backend
from charonia_runtime.compatibility import deprecation_warnings, without_effect
from charonia_runtime.core.errors import InferenceError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.frontend import Frontend
from charonia_runtime.cuda.regions import InterprocessMemory
from charonia_runtime.engine.engine import Engine
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.extensions import EXTENSIONS
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from charonia_runtime.engine.shutdown import close_within
from charonia_runtime.engine.tracing.tracer import Tracer, make_destination
from charonia_runtime.frontends import cannot_start, load_frontend, start_frontend
from charonia_runtime.logs import Log, table
from charonia_runtime.options import ServeOptions
from charonia_runtime.remote.processes import FrontendProcesses
from charonia_runtime.reservations import Reservation
from charonia_runtime.stopping import LastResort, StopSignals
from charonia_runtime.storage.remote_repositories import RemoteRepositories
from charonia_runtime.wires.certificates import refresh_certificates

logger = logging.getLogger(__name__)

_SEQUENCES_SHARE = 0.5
"""The part of `--exit-timeout-secs` that sequences get to end; the rest is for what ends by itself."""
_MARGIN_SECONDS = 0.75
"""How much later than `--exit-timeout-secs` the process ends if something hangs."""
_LEAST_SECONDS = 0.5
"""What the last traces get to be written when `--exit-timeout-secs` is over."""


def serve(options: ServeOptions) -> int:
    """Serve until SIGINT or SIGTERM. Returns the process's exit code."""
    log = Log(options.log, escape=options.environment.quote_log_messages)
    log.install()
    interpreter.set_up()
    for flag in without_effect(options.given):
        logger.warning("--%s is accepted for compatibility and has no effect", flag)
    for warning in (*deprecation_warnings(options.given), *options.trace.warnings, *options.cache.warnings):
        logger.warning("%s", warning)
    last_resort = LastResort()
    server = _Server(options, log, last_resort)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(server.run())
        if server.is_abandoned:
            last_resort.leave(code)
        return code
    finally:
        last_resort.disarm()
        log.close()


class _Server:
    """One life of the process: start, serve, stop."""

    def __init__(self, options: ServeOptions, log: Log, last_resort: LastResort) -> None:
        self.is_abandoned = False
        """Whether something still runs in threads that will not be waited for."""
        self._options = options
        self._log = log
        self._last_resort = last_resort
        self._manager = service_manager.ServiceManager()
        self._engine: Engine
        self._frontends: list[Frontend] = []
        self._processes: FrontendProcesses | None = None
        self._reservations: list[Reservation] = []
        self._access_files = AccessFiles(options.access)

    async def run(self) -> int:
        try:
            self._access_files.open()
            repositories = RemoteRepositories(
                self._options.engine.model_repositories,
                give_up_seconds=self._options.engine.repository_retry_secs,
            )
        except InferenceError as error:
            return _not_created(error)
        try:
            return await self._run(repositories)
        finally:
            repositories.close()

    async def _run(self, repositories: RemoteRepositories) -> int:
        signals = StopSignals()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
        try:
            self._tracer = Tracer(make_destination(self._options.trace.start))
            self._engine = _make_engine(self._options, self._log, repositories, self._tracer)
        except InferenceError as error:
            return _not_created(error)
        try:
            await self._start_frontends()
        except InferenceError as error:
            await self._stop_frontends(self._frontends, asyncio.get_running_loop().time())
            return _failed(error.message)
        loading, stopping = asyncio.create_task(self._engine.start()), asyncio.create_task(signals.wait())
        await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            return await self._abandon_start()
        try:
            await loading
        except InferenceError as error:
            await self._stop_frontends(self._frontends, asyncio.get_running_loop().time())
            return _not_created(error)
        self._log_options()
        interpreter.settle()
        self._manager.tell(service_manager.READY)
        watching = asyncio.create_task(self._access_files.watch())
        await stopping
        self._manager.tell(service_manager.STOPPING)
        await self._drain(signals)
        watching.cancel()
        return await self._stop_or_leave(signals)

    async def _abandon_start(self) -> int:
        """End while models load. They are not waited for: the process ends around them, and their processes with it."""
        logger.info("Told to stop while models load: what is loaded is left")
        self._manager.tell(service_manager.STOPPING)
        self.is_abandoned = True
        self._last_resort.arm(self._options.engine.exit_timeout_secs + _MARGIN_SECONDS)
        deadline = asyncio.get_running_loop().time() + min(self._options.engine.exit_timeout_secs, _LEAST_SECONDS)
        await self._stop_frontends(self._frontends, deadline)
        return 0

    async def _stop_or_leave(self, signals: StopSignals) -> int:
        """Stop; another signal ends the process at once."""
        self._last_resort.arm(self._options.engine.exit_timeout_secs + _MARGIN_SECONDS)
        stopping, cut_short = asyncio.create_task(self._stop()), asyncio.create_task(signals.wait())
        await asyncio.wait({stopping, cut_short}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            logger.error("Told to stop again: the process ends as it is")
            self._last_resort.leave(1)
        cut_short.cancel()
        return await stopping

    async def _stop_frontends(self, frontends: Sequence[Frontend], deadline: float) -> None:
        """Stop them in turn, each within what is left of the time."""
        for frontend in reversed(frontends):
            await frontend.stop(max(deadline - asyncio.get_running_loop().time(), 0))

    def _hang_up(self) -> None:
        """SIGHUP: the log file was moved away, or certificates were renewed."""
        self._log.reopen()
        refresh_certificates()
        if self._processes is not None:
            self._processes.hang_up()

    async def _start_frontends(self) -> None:
        count = self._options.processes.frontend_processes
        for name, options in self._options.frontends.items():
            if not options.enabled:
                continue
            if count and name != "metrics":
                self._reserve(name, options)
                continue
            frontend = load_frontend(name).Frontend(options, self._engine)
            self._refuse_taken_address(frontend)
            await start_frontend(frontend)
            self._frontends.append(frontend)
        if self._reservations:
            addresses = [argument for kept in self._reservations for argument in kept.arguments]
            processes = self._processes = FrontendProcesses(self._engine, count, [*self._options.arguments, *addresses])
            self._frontends.append(processes)
            await processes.start()

    def _reserve(self, name: str, options: Any) -> None:
        """Keep the address of a frontend for the processes that run it."""
        service = load_frontend(name).Frontend
        try:
            reservation = Reservation.of(name, options)
        except UnavailableError as error:
            raise cannot_start(service.name, error) from error
        self._refuse_taken_address(reservation)
        self._reservations.append(reservation)

    def _refuse_taken_address(self, wanted: Frontend | Reservation) -> None:
        others: list[Frontend | Reservation] = [*self._frontends, *self._reservations]
        for other in others:
            if other.address == wanted.address:
                raise InvalidArgumentError(
                    f"The server cannot listen to {other.name} requests and {wanted.name} requests at the same "
                    f"address and port {wanted.address}"
                )

    async def _drain(self, signals: StopSignals) -> None:
        """
        Serve on for `--drain-secs`, not ready any more, so that those who send requests here find other servers.

        A second signal ends it. What comes until then is answered as ever, over HTTP with the connection's last answer.
        """
        seconds = self._options.engine.drain_secs
        if not seconds:
            return
        logger.info("Draining for %d s: not ready any more, serving what still comes", seconds)
        self._engine.retire()
        for frontend in self._frontends:
            frontend.retire()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(signals.wait(), seconds)

    async def _stop(self) -> int:
        """
        Close the listeners as their requests are answered, then unload the models.

        The countdown of `--exit-timeout-secs` is shared by all.

        The metrics stay up until the models are unloaded, so that the last scrape sees how the drain went.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._options.engine.exit_timeout_secs
        first = [frontend for frontend in self._frontends if frontend.name != "metrics"]
        last = [frontend for frontend in self._frontends if frontend.name == "metrics"]
        try:
            await self._engine.finish_sequences(self._options.engine.exit_timeout_secs * _SEQUENCES_SHARE)
            await self._stop_frontends(first, deadline)
            await self._engine.stop(max(deadline - clock(), 0))
            await self._stop_frontends(last, deadline)
        except InferenceError as error:
            return _failed(f"failed to stop server: {error.code.value} - {error.message}")
        finally:
            for reservation in self._reservations:
                reservation.close()
            await close_within(max(deadline - clock(), _LEAST_SECONDS), "traces", self._tracer.close)
        return 0

    def _log_options(self) -> None:
        engine = self._options.engine
        rows: list[tuple[str, str]] = [
            ("server_id", engine.server_id),
            ("server_version", engine.triton.version or __version__),
            ("server_extensions", " ".join(EXTENSIONS)),
            *((f"model_repository_path[{index}]", path) for index, path in enumerate(engine.model_repositories)),
            ("model_control_mode", f"MODE_{engine.control_mode.name}"),
            *((f"startup_models_{index}", name) for index, name in enumerate(engine.load_model)),
            ("strict_model_config", str(int(not engine.auto_complete))),
            ("model_config_name", engine.model_config_name),
            *self._options.rate_limit.rows,
            ("strict_readiness", str(int(engine.strict_readiness))),
            ("exit_timeout", str(engine.exit_timeout_secs)),
            ("cache_enabled", str(int(bool(self._options.cache.settings)))),
        ]
        logger.info(table(("Option", "Value"), rows))


def _make_engine(options: ServeOptions, log: Log, repositories: RemoteRepositories, tracer: Tracer) -> Engine:
    """Raises InferenceError when the options ask for what cannot be had."""
    environment = options.environment
    cuda = InterprocessMemory() if environment.gpus else None
    shared_memory = SharedMemoryRegistry(
        options.shared_memory, cuda=cuda, newest_rules=options.engine.triton.newest_rules
    )
    return Engine(
        replace(options.engine, model_repositories=repositories.directories),
        partial(load_backend, directory=Path(options.engine.backend_directory)),
        partial(
            Model.load,
            allow_strategies=options.engine.allow_batch_strategies,
            parallel_instances=environment.parallel_instances,
            resolve_memory=shared_memory.resolve,
            limiter=options.rate_limit.make(),
            delay_scheduler=environment.scheduler_waits_for,
            delay_backlog=environment.backlog_waits_for,
        ),
        shared_memory=shared_memory,
        settings=partial(SettingsStore, log, options.trace.start, tracer=tracer),
        resolve_memory=shared_memory.resolve,
        hold_regions=shared_memory.hold,
        cache=options.cache.make(options.compatibility.cache_directory, {"redis": environment.redis_credentials}),
        first_responses=options.count_first_responses,
        tracing=tracer,
        agent_directory=options.compatibility.repoagent_directory,
        gpus=environment.gpus,
        namespaces=options.engine.model_repositories,
        refresh=repositories.refresh,
    )


def _not_created(error: InferenceError) -> int:
    return _failed(f"creating server: {error.code.value} - {error.message}")


def _failed(text: str) -> int:
    """Log why the process ends. Returns its exit code."""
    logger.error("error: %s", text)
    return 1
