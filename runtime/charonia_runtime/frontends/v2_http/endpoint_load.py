"""
The load of a language model in the answer's header `endpoint-load-metrics` (ORCA), for load balancers.

Triton's server computes it for the generate extension from gauges that models report: TensorRT-LLM's family of cache
blocks. vLLM's gauges are read where that family is absent.
"""

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from charonia_runtime.core.custom_metrics import CustomFamily, CustomMetrics
from charonia_runtime.protocols import json_output

logger = logging.getLogger(__name__)

FORMAT_FIELD: Final = b"endpoint-load-metrics-format"
_BLOCKS: Final = "nv_trt_llm_kv_cache_block_metrics"
_BLOCK_KIND: Final = "kv_cache_block_type"
_VLLM_USAGE: Final = "vllm:kv_cache_usage_perc"
_VLLM_CONFIG: Final = "vllm:cache_config_info"


class _Load(NamedTuple):
    utilization: float
    """The share of the cache of keys and values that is in use, 0 to 1."""
    token_capacity: int


def load_field(wanted: bytes, metrics: CustomMetrics) -> bytes:
    """Return the header line in the `wanted` format, `text` or `json`; nothing where the load is not known."""
    if wanted not in {b"text", b"json"}:
        logger.error("endpoint-load-metrics-format '%s' is unknown: accepted are text and json", _shown(wanted))
        return b""
    try:
        load = _read(metrics.families())
    except (LookupError, ValueError) as error:
        logger.error("endpoint-load-metrics: the metrics of the models are incomplete: %s", error)  # noqa: TRY400
        return b""
    if wanted == b"text":
        value = b"TEXT named_metrics.kv_cache_utilization=%.6f, named_metrics.max_token_capacity=%d" % load
    else:
        value = b'JSON {"named_metrics":{"kv_cache_utilization":%b,"max_token_capacity":%d}}' % (
            json_output.render(load.utilization), load.token_capacity,
        )  # fmt: skip
    return b"endpoint-load-metrics: %b\r\n" % value


def _read(families: Iterable[CustomFamily]) -> _Load:
    """Raises LookupError or ValueError where no family tells all that is needed."""
    by_name = {family.name: family for family in families}
    if _BLOCKS in by_name:
        blocks = {metric.labels.get(_BLOCK_KIND): metric.value for metric in by_name[_BLOCKS].metrics.values()}
        missing = [kind for kind in ("used", "max", "tokens_per") if kind not in blocks]
        if missing:
            raise LookupError(f"{_BLOCKS} has no {_BLOCK_KIND} {', '.join(missing)}")
        return _Load(
            blocks["used"] / blocks["max"] if blocks["max"] else 0.0, int(blocks["max"] * blocks["tokens_per"])
        )
    if _VLLM_USAGE not in by_name or _VLLM_CONFIG not in by_name:
        raise LookupError(f"there is neither {_BLOCKS} nor {_VLLM_USAGE} with {_VLLM_CONFIG}")
    usages, configs = by_name[_VLLM_USAGE].metrics.values(), by_name[_VLLM_CONFIG].metrics.values()
    if not usages or not configs:
        raise LookupError(f"{_VLLM_USAGE} or {_VLLM_CONFIG} is empty")
    usage, labels = next(iter(usages)).value, next(iter(configs)).labels
    return _Load(usage, int(labels.get("num_gpu_blocks", "")) * int(labels.get("block_size", "")))


def _shown(value: bytes) -> str:
    return value[:40].decode("latin-1")
