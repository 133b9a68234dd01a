"""What Triton fills into a configuration that leaves it open."""

from typing import Any

from charonia_runtime.protocols.model_config.document import Document

_SEQUENCE_IDLE_US = 1_000_000


def fill(document: Document) -> None:
    """Put the defaults into `document`, which has all members that are printed. Harmless when repeated."""
    document.setdefault("version_policy", {"latest": {"num_versions": 1}})
    maximum = document["max_batch_size"]
    if "dynamic_batching" in document:
        _fill_preferred_batch_size(document["dynamic_batching"], maximum)
    if "sequence_batching" in document:
        _fill_sequence_batching(document["sequence_batching"], maximum)
    if "ensemble_scheduling" in document:
        document.setdefault("model_transaction_policy", {})
    else:
        optimization = document.setdefault("optimization", {})
        optimization.setdefault("input_pinned_memory", {"enable": True})
        optimization.setdefault("output_pinned_memory", {"enable": True})


def _fill_sequence_batching(batching: dict[str, Any], maximum: int) -> None:
    if not batching.get("max_sequence_idle_microseconds"):
        batching["max_sequence_idle_microseconds"] = _SEQUENCE_IDLE_US
    if "oldest" in batching:
        _fill_preferred_batch_size(batching["oldest"], maximum)


def _fill_preferred_batch_size(batching: dict[str, Any], maximum: int) -> None:
    if not batching.get("preferred_batch_size") and maximum > 0:
        batching["preferred_batch_size"] = [maximum]
