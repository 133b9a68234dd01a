"""The scheduling choice of a document ⇄ `core.scheduling`."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, assert_never

from charonia_runtime.core.datatypes import DataType
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
from charonia_runtime.protocols.model_config.document import Document
from charonia_runtime.protocols.model_config.words import datatype_of, word

_CHOICES = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")
_FALSE_TRUE: Mapping[str, tuple[DataType, type[float]]] = {
    "int32_false_true": (DataType.INT32, int),
    "fp32_false_true": (DataType.FP32, float),
    "bool_false_true": (DataType.BOOL, bool),
}
"""Member → the type of the tensor's elements, and of the values; infinite ones are written as words."""


# --- reading ---


def scheduling_of(document: Mapping[str, Any]) -> Scheduling:
    """What a printed document says of scheduling."""
    if "dynamic_batching" in document:
        return _dynamic_batching(document["dynamic_batching"])
    if "sequence_batching" in document:
        return _sequence_batching(document["sequence_batching"])
    if "ensemble_scheduling" in document:
        return _ensemble(document["ensemble_scheduling"])
    return Direct()


def _dynamic_batching(entry: Document) -> DynamicBatching:
    policies = entry["priority_queue_policy"]
    return DynamicBatching(
        preferred_batch_sizes=tuple(entry["preferred_batch_size"]),
        max_queue_delay_us=entry["max_queue_delay_microseconds"],
        preserve_ordering=entry["preserve_ordering"],
        priority_levels=entry["priority_levels"],
        default_priority_level=entry["default_priority_level"],
        default_queue_policy=_queue_policy(entry.get("default_queue_policy")),
        priority_queue_policies={int(level): _queue_policy(policy) for level, policy in policies.items()},
    )


def _queue_policy(entry: Document | None) -> QueuePolicy:
    if entry is None:
        return QueuePolicy()
    return QueuePolicy(
        word(TimeoutAction, entry["timeout_action"], "timeout_action"),
        entry["default_timeout_microseconds"],
        entry["allow_timeout_override"],
        entry["max_queue_size"],
    )


def _sequence_batching(entry: Document) -> SequenceBatching:
    return SequenceBatching(
        strategy=_strategy(entry),
        max_sequence_idle_us=entry["max_sequence_idle_microseconds"],
        controls=tuple(
            _control(tensor["name"], control) for tensor in entry["control_input"] for control in tensor["control"]
        ),
        states=tuple(_state(state) for state in entry["state"]),
        iterative=entry["iterative_sequence"],
    )


def _strategy(entry: Document) -> DirectStrategy | OldestStrategy:
    if "oldest" in entry:
        oldest = entry["oldest"]
        return OldestStrategy(
            oldest["max_candidate_sequences"],
            tuple(oldest["preferred_batch_size"]),
            oldest["max_queue_delay_microseconds"],
            oldest["preserve_ordering"],
        )
    if "direct" in entry:
        direct = entry["direct"]
        return DirectStrategy(direct["max_queue_delay_microseconds"], float(direct["minimum_slot_utilization"]))
    return DirectStrategy()


def _control(name: str, entry: Document) -> SequenceControl:
    kind = word(ControlKind, entry["kind"], "control.kind")
    for member, (datatype, number) in _FALSE_TRUE.items():
        if entry[member]:
            return SequenceControl(name, kind, datatype, tuple(map(number, entry[member])))
    return SequenceControl(name, kind, datatype_of(entry["data_type"]))


def _state(entry: Document) -> SequenceState:
    return SequenceState(
        entry["input_name"],
        entry["output_name"],
        datatype_of(entry["data_type"]),
        tuple(entry["dims"]),
        _initial_state(entry["initial_state"][0]) if entry["initial_state"] else None,
        entry["use_same_buffer_for_input_output"],
        entry["use_growable_memory"],
    )


def _initial_state(entry: Document) -> InitialState:
    dims = tuple(int(size) for size in entry["dims"])
    return InitialState(entry["name"], datatype_of(entry["data_type"]), dims, entry.get("data_file"))


def _ensemble(entry: Document) -> Ensemble:
    steps = tuple(
        EnsembleStep(
            step["model_name"], step["model_version"], step["input_map"], step["output_map"], step["model_namespace"]
        )
        for step in entry["step"]
    )
    return Ensemble(steps, entry.get("max_inflight_requests", 0))


# --- writing ---


def write_scheduling(scheduling: Scheduling, document: Document) -> None:
    """
    Make `document` say `scheduling` instead of what it says now.

    Messages that were there stay there, even when they say nothing, as they do in Triton.
    """
    before = {choice: document.pop(choice, {}) for choice in _CHOICES}
    match scheduling:
        case Direct():
            pass
        case DynamicBatching():
            document["dynamic_batching"] = _dynamic_entry(scheduling, before["dynamic_batching"])
        case SequenceBatching():
            document["sequence_batching"] = _sequence_entry(scheduling, before["sequence_batching"])
        case Ensemble():
            document["ensemble_scheduling"] = _ensemble_entry(scheduling)
        case _:
            assert_never(scheduling)


def _dynamic_entry(batching: DynamicBatching, before: Document) -> Document:
    entry: Document = {
        "preferred_batch_size": batching.preferred_batch_sizes,
        "max_queue_delay_microseconds": batching.max_queue_delay_us,
        "preserve_ordering": batching.preserve_ordering,
        "priority_levels": batching.priority_levels,
        "default_priority_level": batching.default_priority_level,
        "priority_queue_policy": {
            level: _policy_entry(policy) for level, policy in batching.priority_queue_policies.items()
        },
    }
    if "default_queue_policy" in before or batching.default_queue_policy != QueuePolicy():
        entry["default_queue_policy"] = _policy_entry(batching.default_queue_policy)
    return entry


def _policy_entry(policy: QueuePolicy) -> Document:
    return {
        "timeout_action": policy.timeout_action.value,
        "default_timeout_microseconds": policy.default_timeout_us,
        "allow_timeout_override": policy.allow_timeout_override,
        "max_queue_size": policy.max_queue_size,
    }


def _sequence_entry(batching: SequenceBatching, before: Document) -> Document:
    entry: Document = {
        "max_sequence_idle_microseconds": batching.max_sequence_idle_us,
        "control_input": [
            {"name": name, "control": [_control_entry(control) for control in controls]}
            for name, controls in groupby(batching.controls, key=lambda control: control.name)
        ],
        "state": [_state_entry(state) for state in batching.states],
        "iterative_sequence": batching.iterative,
    }
    strategy = batching.strategy
    if isinstance(strategy, OldestStrategy):
        entry["oldest"] = {
            "max_candidate_sequences": strategy.max_candidate_sequences,
            "preferred_batch_size": strategy.preferred_batch_sizes,
            "max_queue_delay_microseconds": strategy.max_queue_delay_us,
            "preserve_ordering": strategy.preserve_ordering,
        }
    elif "direct" in before or strategy != DirectStrategy():
        entry["direct"] = {
            "max_queue_delay_microseconds": strategy.max_queue_delay_us,
            "minimum_slot_utilization": strategy.minimum_slot_utilization,
        }
    return entry


def _control_entry(control: SequenceControl) -> Document:
    if not control.false_true:
        return {"kind": control.kind.value, "data_type": control.datatype.config_name}
    member = next(name for name, (datatype, _) in _FALSE_TRUE.items() if datatype is control.datatype)
    return {"kind": control.kind.value, member: control.false_true}


def _state_entry(state: SequenceState) -> Document:
    return {
        "input_name": state.input_name,
        "output_name": state.output_name,
        "data_type": state.datatype.config_name,
        "dims": state.dims,
        "initial_state": [_initial_entry(state.initial)] if state.initial else [],
        "use_same_buffer_for_input_output": state.use_same_buffer,
        "use_growable_memory": state.use_growable_memory,
    }


def _initial_entry(initial: InitialState) -> Document:
    data = {"zero_data": True} if initial.data_file is None else {"data_file": initial.data_file}
    return {"name": initial.name, "data_type": initial.datatype.config_name, "dims": initial.dims, **data}


def _ensemble_entry(ensemble: Ensemble) -> Document:
    steps = [
        {
            "model_name": step.model_name,
            "model_version": step.model_version,
            "input_map": step.input_map,
            "output_map": step.output_map,
            "model_namespace": step.model_namespace,
        }
        for step in ensemble.steps
    ]
    return {"step": steps, "max_inflight_requests": ensemble.max_inflight_requests}
