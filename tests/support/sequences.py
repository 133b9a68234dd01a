"""
Sequence batchers and requests for the tests of engine and backends.

    config = a_sequence_config(OldestStrategy(4), max_batch_size=8)
    scheduler = a_scheduler(config, instances=(1,))
    request = a_step(7, 5, start=True, now=0)                       # correlation id 7, IN = 5
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.request import InferenceRequest, SequenceId
from charonia_runtime.core.scheduling import (
    ControlKind,
    DirectStrategy,
    OldestStrategy,
    SequenceBatching,
    SequenceControl,
    SequenceState,
)
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.schedulers.sequence.direct import NullRequest
from charonia_runtime.engine.schedulers.sequence.scheduler import SequenceScheduler
from tests.support.configs import a_config, a_tensor
from tests.support.requests import RecordingSink, a_request

MS = 1_000_000
IDLE_US = 1_000_000

CONTROLS = (
    SequenceControl("START", ControlKind.START, DataType.INT32, (0, 1)),
    SequenceControl("END", ControlKind.END, DataType.FP32, (0.0, 1.0)),
    SequenceControl("READY", ControlKind.READY, DataType.BOOL, (False, True)),
    SequenceControl("CORRID", ControlKind.CORRID, DataType.UINT64),
)
STATE = SequenceState("STATE_IN", "STATE_OUT", DataType.INT32, (1,))


def a_sequence_config(
    strategy: DirectStrategy | OldestStrategy | None = None,
    *,
    max_batch_size: int = 4,
    variable: bool = False,
    changes: Mapping[str, Any] | None = None,
    **batching: Any,
) -> ModelConfig:
    """IN → OUT, INT32 [1] (`variable`: [-1]), with every control; `batching` are fields of SequenceBatching."""
    dim = -1 if variable else 1
    fields = {"strategy": strategy or DirectStrategy(), "controls": CONTROLS, "max_sequence_idle_us": IDLE_US}
    return a_config(
        "m",
        max_batch_size=max_batch_size,
        inputs=(a_tensor("IN", DataType.INT32, dim),),
        outputs=(a_tensor("OUT", DataType.INT32, dim),),
        scheduling=SequenceBatching(**{**fields, **batching}),
        **(changes or {}),
    )


def a_scheduler(
    config: ModelConfig, instances: Iterable[int] = (1,), initial_states: Mapping[str, Tensor] | None = None
) -> SequenceScheduler:
    assert isinstance(config.scheduling, SequenceBatching)
    scheduler = SequenceScheduler(config, config.scheduling, initial_states)
    for instance in instances:
        scheduler.add_instance(instance, 0)
    return scheduler


def a_step(
    correlation_id: int | str,
    value: int = 0,
    *,
    start: bool = False,
    end: bool = False,
    now: int = 0,
    width: int = 1,
    batches: bool = True,
    sink: RecordingSink | None = None,
    **fields: Any,
) -> InferenceRequest:
    """A request of a sequence with `value` in its input of `width` elements."""
    shape = (1, width) if batches else (width,)
    return a_request(
        "m",
        {"IN": np.full(shape, value, np.int32)},
        sink=sink,
        sequence=SequenceId(correlation_id, start=start, end=end),
        queued_ns=now,
        **fields,
    )


def values(requests: Iterable[InferenceRequest]) -> list[int | None]:
    """The inputs of a batch; None for null requests."""
    return [None if isinstance(request, NullRequest) else input_of(request, "IN") for request in requests]


def input_of(request: InferenceRequest, name: str) -> Any:
    """The only element of an input."""
    return request.inputs[name].as_numpy().reshape(-1)[0].item()
