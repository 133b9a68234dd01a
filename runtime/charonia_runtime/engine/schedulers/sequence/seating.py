"""Which sequence has a slot on which instance, and which ones wait for a slot."""

from collections.abc import Callable, Iterable

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.scheduling import OldestStrategy, SequenceBatching
from charonia_runtime.engine.schedulers.sequence.backlog import Backlog, Silence
from charonia_runtime.engine.schedulers.sequence.direct import DirectSelector
from charonia_runtime.engine.schedulers.sequence.oldest import OldestSelector
from charonia_runtime.engine.schedulers.sequence.slots import InstanceSlots, LiveSequence, Selector


class Seating:
    """
    The slots of all instances of a model. Free ones go, the lowest first, to the sequences that have waited longest.

    `on_seated` is called with each sequence that gets a slot. From then on its silence counts.
    """

    def __init__(
        self, config: ModelConfig, batching: SequenceBatching, on_seated: Callable[[LiveSequence], None]
    ) -> None:
        self.backlog = Backlog()
        self.silence = Silence()
        self.instances: dict[int, InstanceSlots] = {}
        self._config = config
        self._strategy = batching.strategy
        self._idle_ns = batching.max_sequence_idle_us * 1000
        self._on_seated = on_seated
        self._capacity = max(1, config.max_batch_size)
        if isinstance(self._strategy, OldestStrategy):
            self._capacity = self._strategy.max_candidate_sequences or self._capacity
        self.releases_early = not (batching.iterative or isinstance(self._strategy, OldestStrategy))
        """Whether a slot is free once the last request of its sequence runs, instead of when it has run."""

    def add_instance(self, number: int, now_ns: int) -> None:
        self.instances[number] = InstanceSlots(number, self._capacity, self._make_selector(number))
        self._fill(now_ns)

    def seat(self, sequence: LiveSequence, now_ns: int) -> None:
        """Give `sequence` a slot, or a place at the end of the backlog."""
        self.backlog.append(sequence)
        self._fill(now_ns)

    def release(self, sequences: Iterable[LiveSequence | None], now_ns: int) -> None:
        """Free the slots of those of `sequences` that are over."""
        for sequence in sequences:
            if sequence is None or sequence.instance is None or not sequence.closed or sequence.waiting:
                continue
            if sequence.current is None or (sequence.running and self.releases_early):
                sequence.instance.release(sequence)
        self._fill(now_ns)

    def wake_at(self, *, idle: bool) -> int | None:
        """When a timeout, too long a silence, or (with an `idle` instance) the end of a delay is next."""
        times = [self.backlog.next_deadline(), self.silence.next_deadline()]
        if idle:
            times += [instance.selector.wake_at() for instance in self.instances.values()]
        return min([time for time in times if time is not None], default=None)

    def _make_selector(self, number: int) -> Selector:
        if isinstance(self._strategy, OldestStrategy):
            return OldestSelector(self._config, self._strategy, number)
        return DirectSelector(self._config, self._strategy, self._capacity)

    def _fill(self, now_ns: int) -> None:
        while self.backlog:
            free = [instance for instance in self.instances.values() if instance.lowest_free is not None]
            if not free:
                return
            sequence = self.backlog.pop()
            min(free, key=lambda instance: instance.lowest_free or 0).seat(sequence)
            sequence.idle_at_ns = now_ns + self._idle_ns
            self.silence.watch(sequence)
            self._on_seated(sequence)
