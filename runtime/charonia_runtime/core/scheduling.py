"""How a model's requests are scheduled: the four choices of `scheduling_choice`, as the configuration states them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.identifiers import model_identifier


class TimeoutAction(Enum):
    """What happens to a queued request whose timeout expired; the value is the configuration's word."""

    REJECT = "REJECT"
    DELAY = "DELAY"


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """ModelQueuePolicy: limits of one priority level. 0 means no limit."""

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_us: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


@dataclass(frozen=True, slots=True)
class Direct:
    """No scheduling choice: each request runs alone, on the first free instance."""


@dataclass(frozen=True, slots=True)
class DynamicBatching:
    """ModelDynamicBatching. Sizes count rows; `priority_levels` 0 means a single level."""

    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority_level: int = 0
    default_queue_policy: QueuePolicy = QueuePolicy()
    priority_queue_policies: Mapping[int, QueuePolicy] = field(default_factory=dict)


class ControlKind(Enum):
    """What a sequence control tensor tells the model."""

    START = "CONTROL_SEQUENCE_START"
    READY = "CONTROL_SEQUENCE_READY"
    END = "CONTROL_SEQUENCE_END"
    CORRID = "CONTROL_SEQUENCE_CORRID"


@dataclass(frozen=True, slots=True)
class SequenceControl:
    """
    What one tensor tells the model; a tensor with several controls appears once for each.

    `false_true` holds the two values of START, END and READY, in the type that `datatype` says; empty for CORRID.
    """

    name: str
    kind: ControlKind
    datatype: DataType
    false_true: tuple[float | bool, ...] = ()


@dataclass(frozen=True, slots=True)
class InitialState:
    """How a state begins: zeros, or the file `initial_state/<data_file>` of the model's folder."""

    name: str
    datatype: DataType
    dims: tuple[int, ...]
    data_file: str | None = None


@dataclass(frozen=True, slots=True)
class SequenceState:
    """A tensor that the server keeps for a sequence between requests (implicit state)."""

    input_name: str
    output_name: str
    datatype: DataType
    dims: tuple[int, ...]
    initial: InitialState | None = None
    use_same_buffer: bool = False
    use_growable_memory: bool = False


@dataclass(frozen=True, slots=True)
class DirectStrategy:
    """One slot for each sequence and batch row."""

    max_queue_delay_us: int = 0
    minimum_slot_utilization: float = 0.0


@dataclass(frozen=True, slots=True)
class OldestStrategy:
    """The oldest requests of up to `max_candidate_sequences` sequences are batched dynamically."""

    max_candidate_sequences: int = 0
    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_us: int = 0
    preserve_ordering: bool = False


@dataclass(frozen=True, slots=True)
class SequenceBatching:
    """ModelSequenceBatching."""

    strategy: DirectStrategy | OldestStrategy = DirectStrategy()
    max_sequence_idle_us: int = 1_000_000
    controls: tuple[SequenceControl, ...] = ()
    states: tuple[SequenceState, ...] = ()
    iterative: bool = False


@dataclass(frozen=True, slots=True)
class EnsembleStep:
    """One model of an ensemble; maps go from the model's tensor names to the ensemble's. Version -1 is the latest."""

    model_name: str
    model_version: int
    input_map: Mapping[str, str]
    output_map: Mapping[str, str]
    model_namespace: str = ""
    """The repository whose model is meant; the server decides it, whatever the configuration file says."""

    @property
    def identifier(self) -> str:
        """What the server calls the step's model."""
        return model_identifier(self.model_namespace, self.model_name)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """ModelEnsembling. `max_inflight_requests` 0 means no limit."""

    steps: tuple[EnsembleStep, ...]
    max_inflight_requests: int = 0


Scheduling = Direct | DynamicBatching | SequenceBatching | Ensemble
