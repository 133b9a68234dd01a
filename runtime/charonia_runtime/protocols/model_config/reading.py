"""Documents → `core.config.ModelConfig`: the fields that the engine and the backends look at."""

from collections.abc import Mapping
from typing import Any

from charonia_runtime.core.config import (
    Accelerator,
    AllVersions,
    BatchInput,
    BatchOutput,
    CudaGraphSpec,
    InstanceGroup,
    InstanceKind,
    LatestVersions,
    ModelConfig,
    Optimization,
    RateLimiterResource,
    RepositoryAgent,
    SecondaryDevice,
    SpecificVersions,
    TensorFormat,
    TensorSpec,
    VersionPolicy,
    WarmupData,
    WarmupInput,
    WarmupSample,
)
from charonia_runtime.protocols.model_config.document import Document, printed
from charonia_runtime.protocols.model_config.scheduling import scheduling_of
from charonia_runtime.protocols.model_config.words import datatype_of, word

_PRIORITIES = {"PRIORITY_MAX": 1, "PRIORITY_MIN": -1}


def config_of(sparse: Mapping[str, Any]) -> ModelConfig:
    """
    The configuration that a document describes; keeps the document, in the order in which Triton prints it.

    Raises InvalidArgumentError for words that protobuf lets pass as numbers but that mean nothing.
    """
    document = printed(sparse)
    return ModelConfig(
        name=document["name"],
        backend=document["backend"],
        platform=document["platform"],
        runtime=document["runtime"],
        max_batch_size=document["max_batch_size"],
        inputs=tuple(_input(entry) for entry in document["input"]),
        outputs=tuple(_tensor(entry) for entry in document["output"]),
        version_policy=_version_policy(document.get("version_policy")),
        scheduling=scheduling_of(document),
        instance_groups=tuple(_instance_group(entry) for entry in document["instance_group"]),
        default_model_filename=document["default_model_filename"],
        cc_model_filenames=document["cc_model_filenames"],
        metric_tags=document["metric_tags"],
        parameters={name: entry["string_value"] for name, entry in document["parameters"].items()},
        warmup=tuple(_warmup_sample(entry) for entry in document["model_warmup"]),
        decoupled=document.get("model_transaction_policy", {}).get("decoupled", False),
        response_cache=document.get("response_cache", {}).get("enable", False),
        optimization=_optimization(document.get("optimization", {})),
        op_library_filenames=tuple(document.get("model_operations", {}).get("op_library_filename", ())),
        batch_inputs=tuple(_batch_input(entry) for entry in document["batch_input"]),
        batch_outputs=tuple(_batch_output(entry) for entry in document["batch_output"]),
        repository_agents=tuple(
            RepositoryAgent(entry["name"], entry["parameters"])
            for entry in document.get("model_repository_agents", {}).get("agents", ())
        ),
        histogram_buckets=_histogram_buckets(document.get("model_metrics", {})),
        document=document,
    )


def _input(entry: Document) -> TensorSpec:
    return _tensor(entry, format=word(TensorFormat, entry["format"], "input.format"))


def _tensor(entry: Document, **more: Any) -> TensorSpec:
    return TensorSpec(
        entry["name"],
        datatype_of(entry["data_type"]),
        tuple(entry["dims"]),
        reshape=tuple(entry["reshape"]["shape"]) if "reshape" in entry else None,
        optional=entry.get("optional", False),
        allow_ragged=entry.get("allow_ragged_batch", False),
        is_shape_tensor=entry["is_shape_tensor"],
        label_filename=entry.get("label_filename", ""),
        is_non_linear_format=entry["is_non_linear_format_io"],
        **more,
    )


def _version_policy(entry: Document | None) -> VersionPolicy:
    """A policy that is there but chooses nothing means all versions."""
    if entry is None:
        return LatestVersions()
    if "latest" in entry:
        return LatestVersions(entry["latest"]["num_versions"])
    if "specific" in entry:
        return SpecificVersions(tuple(entry["specific"]["versions"]))
    return AllVersions()


def _instance_group(entry: Document) -> InstanceGroup:
    limiter = entry.get("rate_limiter", {"resources": (), "priority": 0})
    return InstanceGroup(
        name=entry["name"],
        kind=word(InstanceKind, entry["kind"], "instance_group.kind"),
        count=entry["count"],
        gpus=tuple(entry["gpus"]),
        profiles=tuple(entry["profile"]),
        passive=entry["passive"],
        host_policy=entry["host_policy"],
        resources=tuple(
            RateLimiterResource(resource["name"], resource["count"], resource["global"])
            for resource in limiter["resources"]
        ),
        priority=limiter["priority"],
        secondary_devices=tuple(
            SecondaryDevice(str(device["kind"]), int(device["device_id"])) for device in entry["secondary_devices"]
        ),
    )


def _warmup_sample(entry: Document) -> WarmupSample:
    inputs = {name: _warmup_input(given) for name, given in entry["inputs"].items()}
    return WarmupSample(entry["name"], entry["batch_size"], inputs, entry["count"] or 1)


def _warmup_input(entry: Document) -> WarmupInput:
    data: WarmupData | str | None = entry.get("input_data_file")
    for kind in WarmupData:
        if kind.value in entry:
            data = kind
    return WarmupInput(datatype_of(entry["data_type"]), tuple(entry["dims"]), data)


def _optimization(entry: Document) -> Optimization:
    accelerators, cuda = entry.get("execution_accelerators", {}), entry.get("cuda", {})
    return Optimization(
        graph_level=entry["graph"]["level"] if "graph" in entry else None,
        gpu_accelerators=_accelerators(accelerators.get("gpu_execution_accelerator", ())),
        cpu_accelerators=_accelerators(accelerators.get("cpu_execution_accelerator", ())),
        cuda_graphs=cuda.get("graphs", False),
        cuda_graph_specs=tuple(map(_cuda_graph_spec, cuda.get("graph_spec", ()))),
        busy_wait_events=cuda.get("busy_wait_events", False),
        priority=_PRIORITIES.get(entry.get("priority", ""), 0),
    )


def _cuda_graph_spec(entry: Document) -> CudaGraphSpec:
    inputs = {name: tuple(map(int, shape["dim"])) for name, shape in entry["input"].items()}
    lowest = entry["graph_lower_bound"]["batch_size"] if "graph_lower_bound" in entry else None
    return CudaGraphSpec(entry["batch_size"], inputs, lowest)


def _accelerators(entries: Any) -> tuple[Accelerator, ...]:
    return tuple(Accelerator(entry["name"], entry["parameters"]) for entry in entries)


def _batch_input(entry: Document) -> BatchInput:
    return BatchInput(
        str(entry["kind"]),
        tuple(entry["target_name"]),
        datatype_of(entry["data_type"]),
        tuple(entry["source_input"]),
    )


def _batch_output(entry: Document) -> BatchOutput:
    return BatchOutput(str(entry["kind"]), tuple(entry["target_name"]), tuple(entry["source_input"]))


def _histogram_buckets(entry: Document) -> dict[str, tuple[float, ...]]:
    """Buckets by metric family; entries that lack either are `core.validation`'s to refuse."""
    return {
        control["metric_identifier"]["family"]: tuple(map(float, control["histogram_options"]["buckets"]))
        for control in entry.get("metric_control", ())
        if "metric_identifier" in control and "histogram_options" in control
    }
