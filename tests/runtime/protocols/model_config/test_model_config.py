"""Configurations: what is printed is what Triton prints, and nothing written is lost."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from charonia_runtime.core.backend import BackendTraits
from charonia_runtime.core.config import (
    Accelerator,
    AllVersions,
    BatchInput,
    BatchOutput,
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
    WarmupData,
    WarmupInput,
    WarmupSample,
)
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.instances import resolve_instance_groups
from charonia_runtime.core.platforms import derive_backend
from charonia_runtime.core.scheduling import (
    ControlKind,
    Direct,
    DirectStrategy,
    DynamicBatching,
    Ensemble,
    EnsembleStep,
    InitialState,
    OldestStrategy,
    QueuePolicy,
    Scheduling,
    SequenceBatching,
    SequenceControl,
    SequenceState,
    TimeoutAction,
)
from charonia_runtime.protocols.model_config import complete, parse_json, parse_text, to_message
from tests.support.printed_configs import OVERRIDES_PRINTED_BY_TRITON, PRINTED_BY_TRITON


def as_loaded(config: ModelConfig, name: str) -> ModelConfig:
    """What the engine makes of a configuration whose model has a `model.py`."""
    files = {} if config.platform == "ensemble" else {"model.py": False}
    config = complete(derive_backend(replace(config, name=config.name or name), files))
    return complete(resolve_instance_groups(config, BackendTraits(), ()))


def as_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize(("name", "text", "printed"), PRINTED_BY_TRITON, ids=[case[0] for case in PRINTED_BY_TRITON])
def test_text_is_printed_as_triton_prints_it(name: str, text: str, printed: str) -> None:
    assert as_json(as_loaded(parse_text(text.encode(), "config.pbtxt"), name).document) == printed


@pytest.mark.parametrize(
    ("name", "text", "printed"), OVERRIDES_PRINTED_BY_TRITON, ids=[case[0] for case in OVERRIDES_PRINTED_BY_TRITON]
)
def test_json_is_printed_as_triton_prints_it(name: str, text: str, printed: str) -> None:
    assert as_json(as_loaded(parse_json(text), name).document) == printed


@pytest.mark.parametrize(("name", "text", "printed"), PRINTED_BY_TRITON, ids=[case[0] for case in PRINTED_BY_TRITON])
def test_what_is_printed_can_be_loaded_again(name: str, text: str, printed: str) -> None:
    """Clients fetch a configuration, change it and send it back."""
    loaded = as_loaded(parse_text(text.encode(), "config.pbtxt"), name)
    assert complete(parse_json(printed)).document == loaded.document


@pytest.mark.parametrize(("name", "text", "printed"), PRINTED_BY_TRITON, ids=[case[0] for case in PRINTED_BY_TRITON])
def test_message_says_what_the_document_says(name: str, text: str, printed: str) -> None:
    message = to_message(json.loads(printed))
    assert parse_text(str(message).encode(), "x").document == parse_json(printed).document


FULL = ModelConfig(
    "full",
    backend="b",
    platform="p",
    runtime="model.py",
    max_batch_size=8,
    inputs=(
        TensorSpec("A", DataType.BYTES, (-1, 2), (2, -1), optional=True, allow_ragged=True),
        TensorSpec("B", DataType.BF16, (1, 2, 3), (), format=TensorFormat.NCHW, is_shape_tensor=True),
    ),
    outputs=(TensorSpec("C", DataType.FP64, (1,), label_filename="l.txt", is_non_linear_format=True),),
    version_policy=SpecificVersions((1, 2**40)),
    scheduling=DynamicBatching(
        (2, 4), 2**64 - 1, True, 2, 1, QueuePolicy(TimeoutAction.DELAY, 5, True, 7), {2: QueuePolicy(max_queue_size=1)}
    ),
    instance_groups=(
        InstanceGroup(
            "g",
            InstanceKind.GPU,
            2,
            (0, 1),
            ("0",),
            passive=True,
            host_policy="h",
            resources=(RateLimiterResource("R", 2, is_global=True),),
            priority=3,
            secondary_devices=(SecondaryDevice("KIND_NVDLA", 2**40),),
        ),
    ),
    default_model_filename="f",
    cc_model_filenames={"7.5": "x"},
    metric_tags={"t": "v"},
    parameters={"k": "v", "a": ""},
    warmup=(
        WarmupSample(
            "w",
            2,
            {
                "A": WarmupInput(DataType.BYTES, (1, 2), WarmupData.ZERO),
                "B": WarmupInput(DataType.BF16, (1,), WarmupData.RANDOM),
                "C": WarmupInput(DataType.INT8, (1,), "file"),
                "D": WarmupInput(DataType.INT8, (1,), None),
            },
            3,
        ),
    ),
    decoupled=True,
    response_cache=True,
    optimization=Optimization(
        -1, (Accelerator("tensorrt", {"precision_mode": "FP16"}),), (Accelerator("openvino"),), cuda_graphs=True
    ),
    op_library_filenames=("op.so",),
    batch_inputs=(BatchInput("BATCH_ITEM_SHAPE", ("T",), DataType.INT32, ("A",)),),
    batch_outputs=(BatchOutput("BATCH_SCATTER_WITH_INPUT_SHAPE", ("C",), ("A",)),),
    repository_agents=(RepositoryAgent("agent", {"a": "b"}),),
    histogram_buckets={"nv_inference_first_response_histogram_ms": (0.5, 100.0)},
)
SCHEDULINGS: tuple[Scheduling, ...] = (
    Direct(),
    DynamicBatching((8,)),
    SequenceBatching(),
    SequenceBatching(DirectStrategy(1, 0.25), 5),
    SequenceBatching(
        OldestStrategy(4, (2,), 7, preserve_ordering=True),
        controls=(
            SequenceControl("S", ControlKind.START, DataType.INT32, (0, 1)),
            SequenceControl("S", ControlKind.END, DataType.FP32, (0, 1)),
            SequenceControl("R", ControlKind.READY, DataType.BOOL, (False, True)),
            SequenceControl("I", ControlKind.CORRID, DataType.BYTES),
        ),
        states=(
            SequenceState("i", "o", DataType.INT32, (-1, 2), InitialState("n", DataType.INT32, (1, 2))),
            SequenceState("j", "p", DataType.INT8, (1,), InitialState("n", DataType.INT8, (1,), "file"), True, True),
        ),
        iterative=True,
    ),
    Ensemble((EnsembleStep("m", -1, {"I": "a"}, {"O": "b"}, "ns"),), 5),
)


def test_every_field_survives_completion_and_json() -> None:
    completed = complete(FULL)
    assert completed == FULL
    assert parse_json(as_json(completed.document)) == FULL
    assert [field.name for field in fields(FULL) if field.name != "document"] == [
        field.name for field in fields(FULL) if getattr(FULL, field.name) != getattr(ModelConfig(""), field.name, None)
    ], "every field must be tried with something else than its default"


@pytest.mark.parametrize("scheduling", SCHEDULINGS)
def test_every_scheduling_survives_completion_and_json(scheduling: Scheduling) -> None:
    completed = complete(replace(FULL, scheduling=scheduling))
    assert completed.scheduling == scheduling
    assert parse_json(as_json(completed.document)) == completed


@pytest.mark.parametrize("before", SCHEDULINGS)
@pytest.mark.parametrize("after", SCHEDULINGS)
def test_a_changed_scheduling_replaces_the_old_one(before: Scheduling, after: Scheduling) -> None:
    config = complete(replace(FULL, scheduling=before))
    assert complete(replace(config, scheduling=after)).scheduling == after


@pytest.mark.parametrize("policy", [LatestVersions(0), LatestVersions(3), AllVersions(), SpecificVersions(())])
def test_every_version_policy_survives(policy: LatestVersions | AllVersions | SpecificVersions) -> None:
    assert complete(replace(FULL, version_policy=policy)).version_policy == policy


def test_completion_keeps_what_no_field_carries() -> None:
    text = b"""
        max_batch_size: 4
        optimization { priority: PRIORITY_MIN cuda { busy_wait_events: true } eager_batching: true }
        dynamic_batching { default_queue_policy {} }
        instance_group { rate_limiter {} }
        model_operations {}
    """
    config = complete(parse_text(text, "x"))
    changed = complete(
        replace(
            config,
            name="n",
            max_batch_size=16,
            scheduling=DynamicBatching((3,), priority_levels=2),
            instance_groups=(InstanceGroup("g", InstanceKind.CPU, 1), InstanceGroup("h", InstanceKind.CPU, 1)),
            optimization=replace(config.optimization, graph_level=1),
        )
    )
    document = changed.document
    assert document["optimization"]["priority"] == "PRIORITY_MIN"
    assert document["optimization"]["cuda"]["busy_wait_events"] is True
    assert document["optimization"]["eager_batching"] is True
    assert "default_queue_policy" in document["dynamic_batching"]
    assert document["dynamic_batching"]["preferred_batch_size"] == [3]
    assert ["rate_limiter" in group for group in document["instance_group"]] == [True, False]
    assert document["model_operations"] == {"op_library_filename": []}


def test_completion_does_not_touch_the_given_document() -> None:
    config = parse_text(b"max_batch_size:4 dynamic_batching{} optimization{}", "x")
    before = as_json(config.document)
    complete(replace(config, name="n", metric_tags={"a": "b"}, optimization=Optimization(1)))
    assert as_json(config.document) == before


def test_auto_completed_batch_size_is_preferred_only_where_none_was() -> None:
    config = complete(parse_text(b"dynamic_batching{}", "x"))
    assert config.scheduling == DynamicBatching()
    config = complete(replace(config, max_batch_size=4))
    assert config.scheduling == DynamicBatching((4,))
    assert complete(replace(config, max_batch_size=8)).scheduling == DynamicBatching((4,))


def test_a_computed_policy_of_an_ensemble_is_printed() -> None:
    ensemble = complete(ModelConfig("e", platform="ensemble", scheduling=Ensemble(())))
    assert ensemble.document["model_transaction_policy"] == {"decoupled": False}
    assert complete(replace(ensemble, decoupled=True)).document["model_transaction_policy"] == {"decoupled": True}


def test_import_leaves_other_heavy_libraries_alone() -> None:
    """Start-up: every process that reads a configuration pays for this import."""
    code = (
        "import sys; import charonia_runtime.protocols.model_config; "
        "print(*{'fastapi', 'uvicorn', 'onnxruntime', 'prometheus_client'} & set(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == ""
