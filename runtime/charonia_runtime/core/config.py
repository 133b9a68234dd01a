"""
What the engine and the backends need to know of a model, as immutable types.

`protocols.model_config` makes these from `config.pbtxt` and JSON and back. Names follow Triton's ModelConfig message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.scheduling import Direct, Scheduling, SequenceBatching, SequenceState


class TensorFormat(Enum):
    """How an image input's dims are to be read; the value is the configuration's word."""

    NONE = "FORMAT_NONE"
    NHWC = "FORMAT_NHWC"
    NCHW = "FORMAT_NCHW"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """
    One configured input or output. -1 in `dims` is a variable size; the batch dimension is never in `dims`.

    `reshape` is what the backend sees instead of `dims`; None where it is the same.
    """

    name: str
    datatype: DataType
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None
    optional: bool = False
    allow_ragged: bool = False
    is_shape_tensor: bool = False
    label_filename: str = ""
    format: TensorFormat = TensorFormat.NONE
    is_non_linear_format: bool = False

    @property
    def backend_dims(self) -> tuple[int, ...]:
        """The dims that the backend sees."""
        return self.dims if self.reshape is None else self.reshape


class InstanceKind(Enum):
    """Where instances run; the value is the configuration's word."""

    AUTO = "KIND_AUTO"
    GPU = "KIND_GPU"
    CPU = "KIND_CPU"
    MODEL = "KIND_MODEL"


@dataclass(frozen=True, slots=True)
class RateLimiterResource:
    """What one instance needs while it runs; `is_global` counts it once a server instead of once a device."""

    name: str
    count: int
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class SecondaryDevice:
    """A device that a TensorRT instance may use besides its GPU; `kind` is the configuration's word."""

    kind: str
    device_id: int


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """ModelInstanceGroup: `count` instances of one kind, on each of `gpus` where the kind is GPU."""

    name: str = ""
    kind: InstanceKind = InstanceKind.AUTO
    count: int = 0
    gpus: tuple[int, ...] = ()
    profiles: tuple[str, ...] = ()
    passive: bool = False
    host_policy: str = ""
    resources: tuple[RateLimiterResource, ...] = ()
    priority: int = 0
    secondary_devices: tuple[SecondaryDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """
    Where one instance runs. `name` is `<group>_<index>`; `device_id` is 0 unless the kind is GPU.

    A passive instance is created like any other but never given a request. `resources` and `priority` are the rate
    limiter's.
    """

    name: str
    kind: InstanceKind
    device_id: int = 0
    profiles: tuple[str, ...] = ()
    passive: bool = False
    host_policy: str = ""
    resources: tuple[RateLimiterResource, ...] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class LatestVersions:
    count: int = 1


@dataclass(frozen=True, slots=True)
class AllVersions:
    pass


@dataclass(frozen=True, slots=True)
class SpecificVersions:
    versions: tuple[int, ...]


VersionPolicy = LatestVersions | AllVersions | SpecificVersions


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One entry of `optimization.execution_accelerators`."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CudaGraphSpec:
    """
    One CUDA graph to record when a model is loaded: for so many rows, and inputs of these dims.

    Fewer rows than that, down to `lowest_batch_size`, may use it too; None for those alone.
    """

    batch_size: int
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    lowest_batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class Optimization:
    """What of ModelOptimizationPolicy any backend reads. `graph_level` None means not set."""

    graph_level: int | None = None
    gpu_accelerators: tuple[Accelerator, ...] = ()
    cpu_accelerators: tuple[Accelerator, ...] = ()
    cuda_graphs: bool = False
    cuda_graph_specs: tuple[CudaGraphSpec, ...] = ()
    busy_wait_events: bool = False
    """Whether waiting for a GPU may spin: a core for some microseconds."""
    priority: int = 0
    """Above 0 the model's work goes before others' on a GPU, below 0 after it."""


class WarmupData(Enum):
    """What fills a warm-up input that is not read from a file."""

    ZERO = "zero_data"
    RANDOM = "random_data"


@dataclass(frozen=True, slots=True)
class WarmupInput:
    """One input of a warm-up sample; `data` is a kind, a file's name in `<model>/warmup/`, or None when not set."""

    datatype: DataType
    dims: tuple[int, ...]
    data: WarmupData | str | None


@dataclass(frozen=True, slots=True)
class WarmupSample:
    """ModelWarmup: `batch_size` requests executed together, `count` times."""

    name: str
    batch_size: int
    inputs: Mapping[str, WarmupInput]
    count: int = 1


@dataclass(frozen=True, slots=True)
class BatchInput:
    """An input that the backend makes from the shape of a batch."""

    kind: str
    target_names: tuple[str, ...]
    datatype: DataType
    source_inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """An output that is cut into requests by the shape of an input."""

    kind: str
    target_names: tuple[str, ...]
    source_inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RepositoryAgent:
    """A hook that runs before a model is loaded."""

    name: str
    parameters: Mapping[str, str]


@dataclass(frozen=True)
class ModelConfig:
    """
    A model's complete configuration. Frozen; a changed one is a new one.

    `document` is the whole configuration as Triton prints it in JSON (declaration order, defaults included); the
    config endpoint and `model.py` get it, the engine never reads it.
    """

    name: str
    backend: str = ""
    platform: str = ""
    runtime: str = ""
    max_batch_size: int = 0
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    version_policy: VersionPolicy = LatestVersions()
    scheduling: Scheduling = field(default_factory=Direct)
    instance_groups: tuple[InstanceGroup, ...] = ()
    default_model_filename: str = ""
    cc_model_filenames: Mapping[str, str] = field(default_factory=dict)
    metric_tags: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    warmup: tuple[WarmupSample, ...] = ()
    decoupled: bool = False
    response_cache: bool = False
    optimization: Optimization = Optimization()
    op_library_filenames: tuple[str, ...] = ()
    batch_inputs: tuple[BatchInput, ...] = ()
    batch_outputs: tuple[BatchOutput, ...] = ()
    repository_agents: tuple[RepositoryAgent, ...] = ()
    histogram_buckets: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def batches(self) -> bool:
        """Whether every tensor has a batch dimension in front."""
        return self.max_batch_size > 0

    @cached_property
    def states(self) -> tuple[SequenceState, ...]:
        """What the server keeps for the model's sequences between requests."""
        return self.scheduling.states if isinstance(self.scheduling, SequenceBatching) else ()

    def input(self, name: str) -> TensorSpec | None:
        return next((spec for spec in self.inputs if spec.name == name), None)

    def output(self, name: str) -> TensorSpec | None:
        return next((spec for spec in self.outputs if spec.name == name), None)

    def full_shape(self, spec: TensorSpec) -> tuple[int, ...]:
        """The shape that metadata shows: `dims`, with -1 in front for models that batch."""
        return (-1, *spec.dims) if self.batches else spec.dims
