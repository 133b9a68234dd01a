"""`FrontendProcesses`: as many processes of frontends as there shall be, each started again when it dies."""

import asyncio
import logging
import time
from collections.abc import Sequence

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.server import MirroredServer
from charonia_runtime.ipc.restarts import Backoff
from charonia_runtime.remote.peer import Peers
from charonia_runtime.remote.process import FrontendProcess

logger = logging.getLogger(__name__)


class FrontendProcesses:
    """Implements `core.frontend.Frontend` for all frontends that run in processes of their own."""

    name = "frontend processes"
    address = ""

    def __init__(self, server: MirroredServer, count: int, arguments: Sequence[str]) -> None:
        """`arguments` are those of `charonia serve`, with ports that all processes may share."""
        self._server = server
        self._count = count
        self._arguments = arguments
        self._peers = Peers()
        self._running: set[FrontendProcess] = set()
        self._keepers: list[asyncio.Task[None]] = []
        self._retired = False
        self._stopping = False

    async def start(self) -> None:
        """Returns when all serve. Raises InferenceError with the text of one that cannot; `stop` ends the others."""
        processes = [self._make() for _ in range(self._count)]
        for outcome in await asyncio.gather(*(process.start() for process in processes), return_exceptions=True):
            if outcome is not None:
                raise outcome
        self._keepers = [asyncio.create_task(self._keep(process)) for process in processes]
        logger.info("HTTP and gRPC are served by %d processes: %s", self._count, _pids(processes))

    def retire(self) -> None:
        self._retired = True
        for process in self._running:
            process.retire()

    def hang_up(self) -> None:
        """Pass SIGHUP on."""
        for process in self._running:
            process.hang_up()

    async def stop(self, timeout_seconds: float) -> None:
        self._stopping = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(process.stop(timeout_seconds) for process in self._running))
        self._running.clear()

    def _make(self) -> FrontendProcess:
        process = FrontendProcess(self._server, self._peers, self._arguments)
        self._running.add(process)
        return process

    async def _keep(self, process: FrontendProcess) -> None:
        """Replace a process whenever it dies, sooner or later."""
        backoff = Backoff()
        while True:
            began = time.monotonic()
            pid, end = process.pid, await process.ended()
            self._running.discard(process)
            logger.error("the process %d of frontends died (%s), another one is started", pid, end)
            backoff.died(time.monotonic() - began)
            process = await self._replace(backoff)

    async def _replace(self, backoff: Backoff) -> FrontendProcess:
        while True:
            await asyncio.sleep(backoff.seconds)
            process = self._make()
            try:
                await process.start()
            except InferenceError as error:
                logger.error("a process of frontends cannot be started: %s", error.message)  # noqa: TRY400
                self._running.discard(process)
                await process.kill()
                backoff.failed()
                continue
            logger.info("the process %d serves HTTP and gRPC", process.pid)
            if self._retired:
                process.retire()
            return process


def _pids(processes: Sequence[FrontendProcess]) -> str:
    return ", ".join(str(process.pid) for process in processes)
