"""Rules of sequence batching."""

from collections.abc import Iterator, Mapping
from typing import Any

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import ControlKind, OldestStrategy, SequenceBatching

_PAIRS = ("int32_false_true", "fp32_false_true", "bool_false_true")
_CORRID_TYPES = frozenset({"TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING"})

_Control = Mapping[str, Any]


def check_sequence_batching(config: ModelConfig, batching: SequenceBatching) -> None:
    """Raises InvalidArgumentError for control tensors, sizes and strategies that make no sense."""
    if config.response_cache:
        raise InvalidArgumentError(
            f"Response Cache does not currently support model {config.name} with sequence batching scheduler. Please "
            "disable the response cache."
        )
    for kind in (ControlKind.START, ControlKind.END, ControlKind.READY):
        for control in _controls(config, kind):
            _check_pair(control, kind, config.name)
    for control in _controls(config, ControlKind.CORRID):
        _check_no_pair(control, config.name)
    _check_correlation_type(config)
    _check_strategy(config, batching)


def _controls(config: ModelConfig, kind: ControlKind) -> Iterator[_Control]:
    """The controls of `kind` as they were written, each tensor's name and the kind's being alone checked on the way."""
    names: set[str] = set()
    found = False
    for tensor in config.document.get("sequence_batching", {}).get("control_input", ()):
        name = tensor["name"]
        if not name:
            raise InvalidArgumentError(f"sequence batching control tensor must have a name for {config.name}")
        if name in names:
            raise InvalidArgumentError(
                f"sequence batching control tensor '{name}' is specified for multiple control kinds for {config.name}"
            )
        names.add(name)
        for control in tensor["control"]:
            if control["kind"] != kind.value:
                continue
            if found:
                raise InvalidArgumentError(
                    f"sequence batching specifies multiple {kind.value} tensors for {config.name}"
                )
            found = True
            yield control


def _check_pair(control: _Control, kind: ControlKind, model: str) -> None:
    given = [pair for pair in _PAIRS if control[pair]]
    subject = f"{kind.value} for {model}"
    if not given:
        raise InvalidArgumentError(
            "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for "
            f"{subject}"
        )
    if len(given) > 1:
        raise InvalidArgumentError(
            "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and "
            f"'bool_false_true' for {subject}"
        )
    if len(control[given[0]]) != 2:
        raise InvalidArgumentError(f"sequence batching control '{given[0]}' must have exactly 2 entries for {subject}")


def _check_no_pair(control: _Control, model: str) -> None:
    if any(control[pair] for pair in _PAIRS):
        raise InvalidArgumentError(
            "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' "
            f"for {ControlKind.CORRID.value} for {model}"
        )


def _check_correlation_type(config: ModelConfig) -> None:
    for control in _controls(config, ControlKind.CORRID):
        if control["data_type"] not in _CORRID_TYPES:
            raise InvalidArgumentError(
                f"unexpected data type for control {ControlKind.CORRID.value} for {config.name}. Allowed data types "
                "are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING"
            )


def _check_strategy(config: ModelConfig, batching: SequenceBatching) -> None:
    strategy = batching.strategy
    if isinstance(strategy, OldestStrategy):
        for size in strategy.preferred_batch_sizes:
            if size <= 0:
                raise InvalidArgumentError(f"sequence batching preferred batch size must be positive for {config.name}")
            if size > config.max_batch_size:
                raise InvalidArgumentError(
                    f"sequence batching preferred batch size must be <= max batch size for {config.name}"
                )
    elif strategy.minimum_slot_utilization < 0 or strategy.minimum_slot_utilization > 1:
        raise InvalidArgumentError(
            f"sequence batching minimum slot utilization must be in range (0.0, 1.0] for {config.name}"
        )
