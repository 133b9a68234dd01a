"""The JSON answers of the control routes, with Triton's order of keys."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from charonia_runtime.core.server import (
    CudaRegion,
    IndexEntry,
    LogSettings,
    ModelMetadata,
    ServerMetadata,
    SystemRegion,
    TensorMetadata,
    TraceSettings,
    VersionStatistics,
)
from charonia_runtime.core.statistics import Duration, ModelStatistics
from charonia_runtime.protocols.json_output import render

_REQUEST_PHASES = (
    "success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss",
)  # fmt: skip
_BATCH_PHASES = ("compute_input", "compute_infer", "compute_output")
_RESPONSE_PHASES = ("compute_infer", "compute_output", "success", "fail", "empty_response", "cancel")


def render_error(message: str) -> bytes:
    """The body of every refusal."""
    return render({"error": message})


def read_error(body: bytes) -> str:
    """Return the text of a refusal that `render_error` made; empty for any other body."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, LookupError, TypeError):
        return ""


def render_server_metadata(metadata: ServerMetadata) -> bytes:
    return render({"name": metadata.name, "version": metadata.version, "extensions": metadata.extensions})


def render_model_metadata(metadata: ModelMetadata) -> bytes:
    return render(
        {
            "name": metadata.name,
            "versions": [str(version) for version in metadata.versions],
            "platform": metadata.platform,
            "inputs": [_tensor(tensor) for tensor in metadata.inputs],
            "outputs": [_tensor(tensor) for tensor in metadata.outputs],
        }
    )


def render_model_config(document: Mapping[str, Any]) -> bytes:
    return render(document)


def render_statistics(versions: Sequence[VersionStatistics]) -> bytes:
    return render({"model_stats": [_version_statistics(version) for version in versions]})


def render_index(entries: Sequence[IndexEntry]) -> bytes:
    return render([_index_entry(entry) for entry in entries])


def render_trace_settings(settings: TraceSettings) -> bytes:
    """`trace_level` is an array, every other setting one text."""
    return render({
        setting: values if setting == "trace_level" else "".join(values[:1]) for setting, values in settings.items()
    })  # fmt: skip


def render_log_settings(settings: LogSettings) -> bytes:
    return render(settings)


def render_system_regions(regions: Sequence[SystemRegion]) -> bytes:
    return render(
        [
            {"name": region.name, "key": region.key, "offset": region.offset, "byte_size": region.byte_size}
            for region in regions
        ]
    )


def render_cuda_regions(regions: Sequence[CudaRegion]) -> bytes:
    return render(
        [{"name": region.name, "device_id": region.device_id, "byte_size": region.byte_size} for region in regions]
    )


def _tensor(tensor: TensorMetadata) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": tensor.datatype.wire_name, "shape": tensor.shape}


def _index_entry(entry: IndexEntry) -> dict[str, Any]:
    document = {
        "name": entry.name,
        "version": None if entry.version is None else str(entry.version),
        "state": entry.state,
        "reason": entry.reason,
    }
    return {key: value for key, value in document.items() if value is not None}


def _version_statistics(version: VersionStatistics) -> dict[str, Any]:
    statistics = version.statistics
    return {
        "name": version.name,
        "version": str(version.version),
        "last_inference": statistics.last_inference_ms,
        "inference_count": statistics.inference_count,
        "execution_count": statistics.execution_count,
        "inference_stats": _durations(statistics, _REQUEST_PHASES),
        "response_stats": {
            index: _durations(response, _RESPONSE_PHASES) for index, response in sorted(statistics.responses.items())
        },
        "batch_stats": _batch_statistics(statistics),
        "memory_usage": [],
    }


def _batch_statistics(statistics: ModelStatistics) -> list[dict[str, Any]]:
    return [
        {"batch_size": size, **_durations(batch, _BATCH_PHASES)} for size, batch in sorted(statistics.batches.items())
    ]


def _durations(counters: Any, phases: Sequence[str]) -> dict[str, Any]:
    """The counters called `phases` as count and nanoseconds."""
    durations: list[tuple[str, Duration]] = [(phase, getattr(counters, phase)) for phase in phases]
    return {phase: {"count": duration.count, "ns": duration.ns} for phase, duration in durations}
