"""The oldest strategy: the first requests of an instance's sequences are batched dynamically."""

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.scheduling import DynamicBatching, OldestStrategy
from charonia_runtime.engine.schedulers.dynamic import DynamicScheduler
from charonia_runtime.engine.schedulers.sequence.slots import LiveSequence


class OldestSelector:
    """A dynamic batcher of one instance; no sequence has more than one request in it."""

    __slots__ = ("_batcher", "_number", "_sequences")

    def __init__(self, config: ModelConfig, strategy: OldestStrategy, number: int) -> None:
        batching = DynamicBatching(strategy.preferred_batch_sizes, strategy.max_queue_delay_us)
        self._batcher = DynamicScheduler(config, batching)
        self._number = number
        self._sequences: dict[int, LiveSequence] = {}

    def add(self, sequence: LiveSequence) -> None:
        if sequence.current is not None:
            self._sequences[id(sequence.current)] = sequence
            self._batcher.enqueue(sequence.current)

    def withdraw(self, sequence: LiveSequence) -> None:
        if sequence.current is not None:
            del self._sequences[id(sequence.current)]
            self._batcher.cancel(sequence.current)

    def take(self, now_ns: int) -> list[LiveSequence]:
        return [self._sequences.pop(id(request)) for request in self._batcher.next_batch(now_ns, self._number)]

    def wake_at(self) -> int | None:
        return self._batcher.wake_at(idle=True) if len(self._batcher) else None
