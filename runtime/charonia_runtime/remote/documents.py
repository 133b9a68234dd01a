"""What crosses a link seldom, as JSON documents: answers about the server and its models, and configurations."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import ERROR_CLASSES, ErrorCode, InferenceError
from charonia_runtime.core.server import (
    CudaRegion,
    IndexEntry,
    ModelMetadata,
    ServerMetadata,
    SystemRegion,
    TensorMetadata,
    VersionStatistics,
)
from charonia_runtime.core.statistics import BatchStatistics, Duration, ModelStatistics, ResponseStatistics

Document = dict[str, Any]

_DURATIONS: Final = (
    "success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss",
)  # fmt: skip
_NUMBERS: Final = ("last_inference_ms", "inference_count", "execution_count")


# --- errors ---


def write_error(error: InferenceError) -> Document:
    return {"error": error.message, "code": error.code.value}


def read_error(document: Mapping[str, Any]) -> InferenceError:
    return ERROR_CLASSES[ErrorCode(document["code"])](document["error"])


# --- configurations, as far as frontends look at them ---


def write_config(config: ModelConfig) -> Document:
    return {
        "name": config.name,
        "backend": config.backend,
        "platform": config.platform,
        "max_batch_size": config.max_batch_size,
        "decoupled": config.decoupled,
        "inputs": [_write_spec(spec) for spec in config.inputs],
        "outputs": [_write_spec(spec) for spec in config.outputs],
    }


def read_config(document: Mapping[str, Any]) -> ModelConfig:
    inputs, outputs = (tuple(map(_read_spec, document[key])) for key in ("inputs", "outputs"))
    return ModelConfig(**{**document, "inputs": inputs, "outputs": outputs})


def _write_spec(spec: TensorSpec) -> Document:
    return {
        "name": spec.name,
        "datatype": spec.datatype.value,
        "dims": spec.dims,
        "reshape": spec.reshape,
        "optional": spec.optional,
        "allow_ragged": spec.allow_ragged,
        "is_shape_tensor": spec.is_shape_tensor,
    }


def _read_spec(document: Mapping[str, Any]) -> TensorSpec:
    reshape = document["reshape"]
    values = {
        **document,
        "datatype": DataType(document["datatype"]),
        "dims": tuple(document["dims"]),
        "reshape": None if reshape is None else tuple(reshape),
    }
    return TensorSpec(**values)


# --- the server and its models ---


def write_server_metadata(metadata: ServerMetadata) -> Document:
    return asdict(metadata)


def read_server_metadata(document: Mapping[str, Any]) -> ServerMetadata:
    return ServerMetadata(document["name"], document["version"], tuple(document["extensions"]))


def write_model_metadata(metadata: ModelMetadata) -> Document:
    inputs, outputs = (
        [(tensor.name, tensor.datatype.value, tensor.shape) for tensor in tensors]
        for tensors in (metadata.inputs, metadata.outputs)
    )
    return {
        "name": metadata.name,
        "versions": metadata.versions,
        "platform": metadata.platform,
        "inputs": inputs,
        "outputs": outputs,
    }


def read_model_metadata(document: Mapping[str, Any]) -> ModelMetadata:
    inputs, outputs = (
        tuple(TensorMetadata(name, DataType(datatype), tuple(shape)) for name, datatype, shape in document[key])
        for key in ("inputs", "outputs")
    )
    return ModelMetadata(document["name"], tuple(document["versions"]), document["platform"], inputs, outputs)


def write_index(entries: Sequence[IndexEntry]) -> list[Document]:
    return [asdict(entry) for entry in entries]


def read_index(documents: Sequence[Mapping[str, Any]]) -> list[IndexEntry]:
    return [IndexEntry(**document) for document in documents]


def write_system_regions(regions: Sequence[SystemRegion]) -> list[Document]:
    return [asdict(region) for region in regions]


def read_system_regions(documents: Sequence[Mapping[str, Any]]) -> list[SystemRegion]:
    return [SystemRegion(**document) for document in documents]


def write_cuda_regions(regions: Sequence[CudaRegion]) -> list[Document]:
    return [asdict(region) for region in regions]


def read_cuda_regions(documents: Sequence[Mapping[str, Any]]) -> list[CudaRegion]:
    return [CudaRegion(**document) for document in documents]


# --- statistics, as far as clients are shown them ---


def write_statistics(found: Sequence[VersionStatistics]) -> list[Document]:
    return [
        {
            "name": one.name,
            "version": one.version,
            "config": write_config(one.config),
            **_write_counters(one.statistics),
        }
        for one in found
    ]


def read_statistics(documents: Sequence[Mapping[str, Any]]) -> list[VersionStatistics]:
    return [
        VersionStatistics(
            document["name"], document["version"], read_config(document["config"]), _read_counters(document)
        )
        for document in documents
    ]


def _write_counters(statistics: ModelStatistics) -> Document:
    return {
        **{name: getattr(statistics, name) for name in _NUMBERS},
        **{name: asdict(getattr(statistics, name)) for name in _DURATIONS},
        "batches": [(size, asdict(batch)) for size, batch in statistics.batches.items()],
        "responses": [(index, asdict(response)) for index, response in statistics.responses.items()],
    }


def _read_counters(document: Mapping[str, Any]) -> ModelStatistics:
    values: Document = {name: document[name] for name in _NUMBERS}
    values |= {name: Duration(**document[name]) for name in _DURATIONS}
    values["batches"] = {size: BatchStatistics(**_read_durations(batch)) for size, batch in document["batches"]}
    values["responses"] = {index: ResponseStatistics(**_read_durations(one)) for index, one in document["responses"]}
    return ModelStatistics(**values)


def _read_durations(document: Mapping[str, Any]) -> dict[str, Duration]:
    return {name: Duration(**duration) for name, duration in document.items()}
