"""The gauges of the response cache in this process."""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from charonia_runtime.core.cache import CacheUse

_GAUGES: Final[tuple[tuple[str, str, Callable[[CacheUse], float]], ...]] = (
    ("nv_cache_util", "Cache utilization [0.0 - 1.0]", lambda use: use.used / use.capacity if use.capacity else 0.0),
    ("nv_cache_num_entries", "Number of responses stored in response cache", lambda use: use.entries),
    ("nv_cache_num_hits", "Number of cache hits in response cache", lambda use: use.hits),
    ("nv_cache_num_misses", "Number of cache misses in response cache", lambda use: use.misses),
    ("nv_cache_num_lookups", "Number of cache lookups in response cache", lambda use: use.lookups),
    ("nv_cache_num_evictions", "Number of cache evictions in response cache", lambda use: use.evictions),
    (
        "nv_cache_lookup_duration",
        "Total cache lookup duration (hit and miss), in microseconds",
        lambda use: use.lookup_ns // 1000,
    ),
    (
        "nv_cache_insertion_duration",
        "Total cache insertion duration, in microseconds",
        lambda use: use.insertion_ns // 1000,
    ),
)


class CacheCollector(Collector):
    """Yields nothing on a server without a cache, or with one that other servers share."""

    def __init__(self, use: CacheUse | None) -> None:
        self._use = use

    @override
    def collect(self) -> Iterator[Metric]:
        if self._use is None:
            return
        for name, text, read in _GAUGES:
            family = Metric(name, text, "gauge")
            family.add_sample(name, {}, read(self._use))
            yield family
