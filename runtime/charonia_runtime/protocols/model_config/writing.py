"""`core.config.ModelConfig` → documents: what somebody changed in a configuration's fields is written back."""

from collections.abc import Callable, Mapping
from typing import Any

from charonia_runtime.core.config import (
    Accelerator,
    AllVersions,
    CudaGraphSpec,
    InstanceGroup,
    LatestVersions,
    ModelConfig,
    SpecificVersions,
    TensorSpec,
    VersionPolicy,
    WarmupData,
    WarmupInput,
)
from charonia_runtime.protocols.model_config.document import Document
from charonia_runtime.protocols.model_config.scheduling import write_scheduling

_PRIORITIES = {1: "PRIORITY_MAX", 0: "PRIORITY_DEFAULT", -1: "PRIORITY_MIN"}


def write_changes(before: ModelConfig, after: ModelConfig, document: Document) -> None:
    """Bring `document`, which says what `before` says, to what `after` says; other members are not touched."""
    for field, write in _WRITERS.items():
        if getattr(before, field) != getattr(after, field):
            write(after, document)


def _copied(member: str, field: str) -> Callable[[ModelConfig, Document], None]:
    """A writer for a field that looks the same in both."""

    def write(config: ModelConfig, document: Document) -> None:
        document[member] = getattr(config, field)

    return write


def _write_inputs(config: ModelConfig, document: Document) -> None:
    document["input"] = [
        _tensor_entry(spec)
        | {
            "format": spec.format.value,
            "optional": spec.optional,
            "allow_ragged_batch": spec.allow_ragged,
        }
        for spec in config.inputs
    ]


def _write_outputs(config: ModelConfig, document: Document) -> None:
    document["output"] = [_tensor_entry(spec) | {"label_filename": spec.label_filename} for spec in config.outputs]


def _tensor_entry(spec: TensorSpec) -> Document:
    return {
        "name": spec.name,
        "data_type": spec.datatype.config_name,
        "dims": spec.dims,
        "reshape": None if spec.reshape is None else {"shape": spec.reshape},
        "is_shape_tensor": spec.is_shape_tensor,
        "is_non_linear_format_io": spec.is_non_linear_format,
    }


def _write_version_policy(config: ModelConfig, document: Document) -> None:
    document["version_policy"] = _policy_entry(config.version_policy)


def _policy_entry(policy: VersionPolicy) -> Document:
    match policy:
        case LatestVersions(count):
            return {"latest": {"num_versions": count}}
        case SpecificVersions(versions):
            return {"specific": {"versions": versions}}
        case AllVersions():
            return {"all": {}}


def _write_scheduling(config: ModelConfig, document: Document) -> None:
    write_scheduling(config.scheduling, document)


def _write_instance_groups(config: ModelConfig, document: Document) -> None:
    before = document["instance_group"] + [{}] * len(config.instance_groups)
    document["instance_group"] = [
        _group_entry(group, limited="rate_limiter" in old)
        for group, old in zip(config.instance_groups, before, strict=False)
    ]


def _group_entry(group: InstanceGroup, *, limited: bool) -> Document:
    """`limited`: whether a rate limiter was there, which stays even when it says nothing."""
    entry: Document = {
        "name": group.name,
        "kind": group.kind.value,
        "count": group.count,
        "gpus": group.gpus,
        "secondary_devices": [
            {"kind": device.kind, "device_id": device.device_id} for device in group.secondary_devices
        ],
        "profile": group.profiles,
        "passive": group.passive,
        "host_policy": group.host_policy,
    }
    if limited or group.resources or group.priority:
        entry["rate_limiter"] = {
            "resources": [
                {"name": resource.name, "global": resource.is_global, "count": resource.count}
                for resource in group.resources
            ],
            "priority": group.priority,
        }
    return entry


def _write_parameters(config: ModelConfig, document: Document) -> None:
    document["parameters"] = {name: {"string_value": value} for name, value in config.parameters.items()}


def _write_warmup(config: ModelConfig, document: Document) -> None:
    document["model_warmup"] = [
        {
            "name": sample.name,
            "batch_size": sample.batch_size,
            "inputs": {name: _warmup_input_entry(given) for name, given in sample.inputs.items()},
            "count": sample.count,
        }
        for sample in config.warmup
    ]


def _warmup_input_entry(given: WarmupInput) -> Document:
    entry: Document = {"data_type": given.datatype.config_name, "dims": given.dims}
    match given.data:
        case WarmupData() as kind:
            entry[kind.value] = True
        case str(file):
            entry["input_data_file"] = file
        case None:
            pass
    return entry


def _write_decoupled(config: ModelConfig, document: Document) -> None:
    document["model_transaction_policy"] = {"decoupled": config.decoupled}


def _write_response_cache(config: ModelConfig, document: Document) -> None:
    document["response_cache"] = {"enable": config.response_cache}


def _write_optimization(config: ModelConfig, document: Document) -> None:
    optimization = config.optimization
    entry = document.setdefault("optimization", {})
    entry["graph"] = None if optimization.graph_level is None else {"level": optimization.graph_level}
    entry["execution_accelerators"] = {
        "gpu_execution_accelerator": _accelerator_entries(optimization.gpu_accelerators),
        "cpu_execution_accelerator": _accelerator_entries(optimization.cpu_accelerators),
    }
    entry["priority"] = _PRIORITIES[optimization.priority]
    entry["cuda"] = entry.get("cuda", {}) | {
        "graphs": optimization.cuda_graphs,
        "busy_wait_events": optimization.busy_wait_events,
        "graph_spec": list(map(_cuda_graph_entry, optimization.cuda_graph_specs)),
    }


def _cuda_graph_entry(spec: CudaGraphSpec) -> Document:
    inputs = {name: {"dim": dims} for name, dims in spec.inputs.items()}
    lowest = {} if spec.lowest_batch_size is None else {"batch_size": spec.lowest_batch_size, "input": inputs}
    return {"batch_size": spec.batch_size, "input": inputs} | ({"graph_lower_bound": lowest} if lowest else {})


def _accelerator_entries(accelerators: tuple[Accelerator, ...]) -> list[Document]:
    return [{"name": accelerator.name, "parameters": accelerator.parameters} for accelerator in accelerators]


def _write_op_libraries(config: ModelConfig, document: Document) -> None:
    document["model_operations"] = {"op_library_filename": config.op_library_filenames}


def _write_batch_inputs(config: ModelConfig, document: Document) -> None:
    document["batch_input"] = [
        {
            "kind": made.kind,
            "target_name": made.target_names,
            "data_type": made.datatype.config_name,
            "source_input": made.source_inputs,
        }
        for made in config.batch_inputs
    ]


def _write_batch_outputs(config: ModelConfig, document: Document) -> None:
    document["batch_output"] = [
        {"kind": cut.kind, "target_name": cut.target_names, "source_input": cut.source_inputs}
        for cut in config.batch_outputs
    ]


def _write_repository_agents(config: ModelConfig, document: Document) -> None:
    document["model_repository_agents"] = {
        "agents": [{"name": agent.name, "parameters": agent.parameters} for agent in config.repository_agents]
    }


def _write_histogram_buckets(config: ModelConfig, document: Document) -> None:
    document["model_metrics"] = {
        "metric_control": [
            {"metric_identifier": {"family": family}, "histogram_options": {"buckets": buckets}}
            for family, buckets in config.histogram_buckets.items()
        ]
    }


_WRITERS: Mapping[str, Callable[[ModelConfig, Document], Any]] = {
    "name": _copied("name", "name"),
    "backend": _copied("backend", "backend"),
    "platform": _copied("platform", "platform"),
    "runtime": _copied("runtime", "runtime"),
    "max_batch_size": _copied("max_batch_size", "max_batch_size"),
    "inputs": _write_inputs,
    "outputs": _write_outputs,
    "version_policy": _write_version_policy,
    "scheduling": _write_scheduling,
    "instance_groups": _write_instance_groups,
    "default_model_filename": _copied("default_model_filename", "default_model_filename"),
    "cc_model_filenames": _copied("cc_model_filenames", "cc_model_filenames"),
    "metric_tags": _copied("metric_tags", "metric_tags"),
    "parameters": _write_parameters,
    "warmup": _write_warmup,
    "decoupled": _write_decoupled,
    "response_cache": _write_response_cache,
    "optimization": _write_optimization,
    "op_library_filenames": _write_op_libraries,
    "batch_inputs": _write_batch_inputs,
    "batch_outputs": _write_batch_outputs,
    "repository_agents": _write_repository_agents,
    "histogram_buckets": _write_histogram_buckets,
}
"""Field of ModelConfig → who writes it. Every field but the document itself is here."""
