"""The metrics port: what the engine counted and what the machine shows, as text, whenever somebody asks."""

import asyncio
import errno
import logging
import time
from collections.abc import Sequence

from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.metrics.exposition import Family, render
from charonia_runtime.frontends.metrics.listener import Connection
from charonia_runtime.frontends.metrics.machine import CpuProbe, GpuProbe, Probe, Sampler
from charonia_runtime.frontends.metrics.models import ModelFamilies
from charonia_runtime.frontends.metrics.options import Options
from charonia_runtime.frontends.metrics.summaries import Summaries

logger = logging.getLogger(__name__)

_MODELS_A_TURN = 32
"""Model versions that are rendered before other tasks get the loop: less than a millisecond (26 us each)."""

_FIRST_SAMPLE_SECONDS = 1.0
"""How long `start` waits for the machine's gauges; a slow driver shows up in a later scrape."""


class Frontend:
    """Serves `/metrics`. See `core.frontend.Frontend`."""

    name = "metrics"

    def __init__(self, options: Options, server: InferenceServer) -> None:
        self.address = f"{options.metrics_address}:{options.metrics_port}"
        self._options = options
        self._server = server
        self._listener: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._sampler: Sampler | None = None
        self._summaries = Summaries(options.quantiles) if options.summary_latencies else None

    @property
    def port(self) -> int:
        """The port that it listens on, where the options say 0."""
        if self._listener is None:
            return self._options.metrics_port
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(
                lambda: Connection(self.collect, self._connections),
                self._options.metrics_address or None,
                self._options.metrics_port,
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise UnavailableError(f"Socket '{self.address}' already in use ") from error
            raise UnavailableError(f"Socket '{self.address}' can not be opened: {error.strerror or error}") from error
        self._sampler = Sampler(self._find_probes, self._options.metrics_interval_ms / 1000)
        self._sampler.start()
        await asyncio.to_thread(self._sampler.wait, _FIRST_SAMPLE_SECONDS)
        if self._summaries is not None:
            self._summaries.watch(await self._server.statistics())
        logger.info("Started Metrics Service at %s", self.address)

    async def stop(self, timeout_seconds: float) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.close()
        answers = {connection.task for connection in self._connections if connection.task is not None}
        if answers:
            await asyncio.wait(answers, timeout=timeout_seconds)
        for connection in list(self._connections):
            connection.abort()
        if self._sampler is not None:
            self._sampler.stop()

    async def collect(self) -> bytes:
        """The text of `/metrics`, now."""
        entries = await self._server.statistics()
        models = ModelFamilies(counter_latencies=self._options.counter_latencies)
        for index, entry in enumerate(entries, start=1):
            models.add(entry)
            if index % _MODELS_A_TURN == 0:
                await asyncio.sleep(0)
        machine = self._sampler.families if self._sampler is not None else ()
        summaries: Sequence[Family] = ()
        if self._summaries is not None:
            self._summaries.watch(entries)
            summaries = self._summaries.families(entries, time.monotonic_ns())
        return render([*models.families, *self._pinned_memory(), *machine, *summaries])

    def _find_probes(self) -> list[Probe]:
        gpu = GpuProbe.find() if self._options.allow_gpu_metrics else None
        return [*([CpuProbe()] if self._options.allow_cpu_metrics else []), *([gpu] if gpu is not None else [])]

    def _pinned_memory(self) -> Sequence[Family]:
        """Triton shows the size that was asked for, also where there is no such pool; ours has none."""
        return (
            Family("nv_pinned_memory_pool_total_bytes", "gauge", "Pinned memory pool total memory size, in bytes").add(
                self._options.pinned_memory_pool_bytes
            ),
            Family("nv_pinned_memory_pool_used_bytes", "gauge", "Pinned memory pool used memory size, in bytes").add(0),
        )
