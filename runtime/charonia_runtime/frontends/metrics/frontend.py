"""The metrics port: what the engine counted and what the machine shows, as text, whenever somebody asks."""

import asyncio
import logging

from prometheus_client import CollectorRegistry

from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.metrics.answers import AnswerCollector
from charonia_runtime.frontends.metrics.cache import CacheCollector
from charonia_runtime.frontends.metrics.custom import CustomCollector
from charonia_runtime.frontends.metrics.exposition import render
from charonia_runtime.frontends.metrics.machine import CpuProbe, GpuProbe, PinnedMemory, Probe, Sampler
from charonia_runtime.frontends.metrics.models import ModelCollector
from charonia_runtime.frontends.metrics.options import Options
from charonia_runtime.frontends.metrics.process import ProcessProbe
from charonia_runtime.frontends.metrics.scrapes import JSON_HEADERS, LIMITS, Page, Scrapes
from charonia_runtime.frontends.metrics.summaries import SummaryCollector
from charonia_runtime.protocols.v2_documents import render_index
from charonia_runtime.wires.addresses import bind, join
from charonia_runtime.wires.http1.listener import Listener

logger = logging.getLogger(__name__)

_FIRST_SAMPLE_SECONDS = 1.0
"""How long `start` waits for the machine's gauges; a slow driver shows up in a later scrape."""


class Frontend:
    """Serves `/metrics`, and the list of models where asked to. See `core.frontend.Frontend`."""

    name = "metrics"

    def __init__(self, options: Options, server: InferenceServer) -> None:
        self.address = join(options.metrics_address, options.metrics_port)
        self._options = options
        self._server = server
        self._listener: Listener | None = None
        self._gpu_uuids: dict[int, str] = {}
        self._models = ModelCollector(self._gpu_uuids, counter_latencies=options.counter_latencies)
        self._sampler = Sampler(self._find_probes, options.metrics_interval_ms / 1000)
        self._summaries = SummaryCollector(options.quantiles, self._gpu_uuids) if options.summary_latencies else None
        self._registry = CollectorRegistry()
        self._registry.register(self._models)
        self._registry.register(PinnedMemory(options.pinned_memory_pool_bytes))
        self._registry.register(self._sampler)
        self._registry.register(CacheCollector(server.cache_use))
        self._registry.register(AnswerCollector(server.answers))
        if self._summaries is not None:
            self._registry.register(self._summaries)
        self._registry.register(CustomCollector(server.custom_metrics))

    async def start(self) -> None:
        """Bind and serve. Raises InvalidArgumentError or UnavailableError when the address cannot be had."""
        options = self._options
        bound = bind(options.metrics_address, options.metrics_port)
        host, port = bound.getsockname()[:2]
        self.address = join(options.metrics_address or host, port)
        self._sampler.start()
        await asyncio.to_thread(self._sampler.wait, _FIRST_SAMPLE_SECONDS)
        if self._summaries is not None:
            self._summaries.watch(await self._server.statistics())
        pages = {"/metrics": Page(self.collect)}
        if options.repository_index:
            pages["/v2/repository/index"] = Page(self._index, JSON_HEADERS)
        self._listener = Listener(Scrapes(pages), LIMITS)
        await self._listener.start(bound)
        logger.info("Started Metrics Service at %s", self.address)

    def retire(self) -> None:
        """Nothing: a scraper may keep its connection until the end, to see how the drain goes."""

    async def stop(self, timeout_seconds: float) -> None:
        self._sampler.stop()
        if self._listener is not None:
            await self._listener.stop(timeout_seconds)
            self._listener = None

    async def collect(self) -> bytes:
        """The text of `/metrics`, now."""
        self._models.entries = entries = await self._server.statistics()
        if self._summaries is not None:
            self._summaries.watch(entries)
        texts = []
        for text in render(self._registry.collect()):
            texts.append(text)
            # A thousand models take a tenth of a second; others get the loop in between.
            await asyncio.sleep(0)
        return "".join(texts).encode()

    async def _index(self) -> bytes:
        return render_index(await self._server.repository_index())

    def _find_probes(self) -> list[Probe]:
        probes: list[Probe] = [ProcessProbe()]
        if self._options.allow_cpu_metrics:
            probes.append(CpuProbe())
        gpus = GpuProbe.find() if self._options.allow_gpu_metrics else None
        if gpus is not None:
            self._gpu_uuids.update(gpus.uuids)
            probes.append(gpus)
        return probes
