"""What every scheduler can do for `engine.model`, and the choice of one by a model's configuration."""

from collections.abc import Mapping
from typing import Protocol, assert_never

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import UnsupportedError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.scheduling import Direct, DynamicBatching, Ensemble, SequenceBatching
from charonia_runtime.core.strategy import BatchStrategy
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.schedulers.direct import DirectScheduler
from charonia_runtime.engine.schedulers.dynamic import DynamicScheduler
from charonia_runtime.engine.schedulers.queue import Rejection
from charonia_runtime.engine.schedulers.sequence.scheduler import SequenceScheduler


class Scheduler(Protocol):
    """
    The requests that wait for one model version. A state machine: time is an argument, in nanoseconds of the
    monotonic clock (`InferenceRequest.queued_ns` too, which the caller sets before `enqueue`).

    A request that was enqueued leaves exactly once: by `next_batch`, `expire`, `cancel` or `drain`.
    """

    collects: bool
    """Whether requests that arrive in one turn of the event loop may run together, so that it is worth its end."""
    expires: bool
    """Whether requests may time out while they wait; then `wake_at` matters even when no instance is idle."""

    def enqueue(self, request: InferenceRequest) -> None:
        """Let `request` wait. Raises InferenceError when it is refused; then the scheduler has forgotten it."""

    def next_batch(self, now_ns: int, slot: int) -> list[InferenceRequest]:
        """The requests that idle instance number `slot` runs now, together; empty when it should wait."""

    def expire(self, now_ns: int) -> list[Rejection]:
        """Give up the requests whose time in the queue is over."""

    def wake_at(self, *, idle: bool) -> int | None:
        """When to call again if nothing arrives: `next_batch` (where an instance is `idle`) or `expire`."""

    def cancel(self, request: InferenceRequest) -> bool:
        """Drop `request`; False when it does not wait here any more."""

    def drain(self) -> list[InferenceRequest]:
        """Give up everything that waits."""

    def __len__(self) -> int: ...


def make_scheduler(
    config: ModelConfig, initial_states: Mapping[str, Tensor] | None = None, strategy: BatchStrategy | None = None
) -> Scheduler:
    """
    The scheduler that `config` asks for. Raises UnsupportedError, naming the field, for one that there is not.

    `initial_states` are what the states of a new sequence are, by input name. `strategy` is the model's own word on
    what a dynamic batcher puts together.
    """
    match config.scheduling:
        case Direct():
            return DirectScheduler()
        case DynamicBatching() as batching:
            return DynamicScheduler(config, batching, strategy)
        case SequenceBatching() as sequence_batching:
            return SequenceScheduler(config, sequence_batching, initial_states)
        case Ensemble():
            raise UnsupportedError(f"model '{config.name}': an ensemble has no queue of its own")
        case _:
            assert_never(config.scheduling)
