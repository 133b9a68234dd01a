"""The sequence batcher: the requests of a sequence run in order on one instance, each with its controls and states."""

import logging
from collections.abc import Collection, Mapping
from itertools import count, islice

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import CancelledError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import InferenceRequest, SequenceId
from charonia_runtime.core.scheduling import SequenceBatching
from charonia_runtime.core.states import SequenceStates
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.schedulers.queue import Rejection
from charonia_runtime.engine.schedulers.sequence.controls import Controls
from charonia_runtime.engine.schedulers.sequence.direct import NullRequests
from charonia_runtime.engine.schedulers.sequence.seating import Seating
from charonia_runtime.engine.schedulers.sequence.slots import LiveSequence

logger = logging.getLogger(__name__)


class SequenceScheduler:
    """
    See `Scheduler`. Sequences stay with the instance where they got a slot, so instances must be told:
    `add_instance` before they get batches, `finish` after each batch, `retire_instance` before they go.

    `next_batch` may give null requests, which belong to nobody. A model may want a request again (`finish`): then it
    waits here anew.
    """

    collects = True
    expires = True

    def __init__(
        self, config: ModelConfig, batching: SequenceBatching, initial_states: Mapping[str, Tensor] | None = None
    ) -> None:
        self._model = config.name
        self._batching = batching
        self._initial_states = dict(initial_states or {})
        self._idle_ns = batching.max_sequence_idle_us * 1000
        self._controls = Controls(config, batching)
        self._nulls = NullRequests(self._controls)
        self._seating = Seating(config, batching, self._present)
        self.begins = True
        """Whether clients may begin sequences. Models that call this one may: somebody waits for them already."""
        self._open: dict[int | str, LiveSequence] = {}
        self._sequence_of: dict[int, LiveSequence] = {}
        self._numbers = count(1)
        self._held_for: tuple[int, int] | None = None
        self._cancelled: list[LiveSequence] = []
        self._dropped: list[Rejection] = []
        """What the cancellation of other requests took along; not told yet."""

    # --- instances ---

    def add_instance(self, slot: int, now_ns: int) -> None:
        """Let instance number `slot` take sequences."""
        self._seating.add_instance(slot, now_ns)

    def retire_instance(self, slot: int) -> None:
        """Give instance number `slot` no more sequences; those that it has go on."""
        instance = self._seating.instances.get(slot)
        if instance is not None:
            instance.retired = True

    def is_vacant(self, slot: int) -> bool:
        """Whether instance number `slot` has no sequence."""
        instance = self._seating.instances.get(slot)
        return instance is None or not (instance.occupied or instance.running)

    def remove_instance(self, slot: int) -> None:
        """Forget a vacant instance."""
        self._seating.instances.pop(slot, None)

    def hold(self, in_slots: int, in_backlog: int) -> None:
        """Run nothing before so many requests wait in slots and in the backlog (a hook for tests)."""
        self._held_for = (in_slots, in_backlog) if in_slots or in_backlog else None

    @property
    def live(self) -> int:
        """Sequences that their clients have not ended; those that the model drives end by themselves."""
        return 0 if self._batching.iterative else len(self._open)

    # --- requests ---

    def enqueue(self, request: InferenceRequest) -> None:
        now_ns = request.queued_ns
        place = self._place_of(request)
        self._controls.check(request, place.correlation_id)
        sequence = self._open.get(place.correlation_id)
        if sequence is not None and sequence.idle_at_ns <= now_ns and sequence.is_idle:
            self._end_silent(sequence, now_ns)
            sequence = self._open.get(place.correlation_id)
        if sequence is None and not place.start:
            raise InvalidArgumentError(
                f"inference request for sequence {place.correlation_id} to model '{self._model}' must specify the "
                "START flag on the first request of the sequence"
            )
        if place.start and not (self.begins or self._batching.iterative or request.callers):
            raise UnavailableError(
                "Server is stopping, scheduler for model has stopped accepting new inference requests"
            )
        if sequence is None:
            sequence = self._begin(place.correlation_id, now_ns)
        elif place.start:
            logger.warning(
                "sequence %s for model '%s' has a conflict. The previous sequence did not end before this sequence "
                "start. Previous sequence will be terminated early.",
                place.correlation_id,
                self._model,
            )
        request.sequence = place
        self._append(sequence, request)
        if place.end:
            self._close(sequence)

    def next_batch(self, now_ns: int, slot: int) -> list[InferenceRequest]:
        instance = self._seating.instances.get(slot)
        if instance is None or (self._held_for is not None and self._is_held()):
            return []
        chosen = instance.selector.take(now_ns)
        if not chosen:
            return []
        instance.running = chosen
        template = next(s.current for s in chosen if s is not None and s.current is not None)
        requests: list[InferenceRequest] = []
        for sequence in chosen:
            if sequence is None or sequence.current is None:
                requests.append(self._nulls.like(template))
                continue
            sequence.running = True
            requests.append(sequence.current)
            del self._sequence_of[id(sequence.current)]
        if self._seating.releases_early:
            self._seating.release(chosen, now_ns)
        return requests

    def finish(
        self, slot: int, now_ns: int, states: list[SequenceStates] | None, rescheduled: Collection[int]
    ) -> list[InferenceRequest]:
        """
        The batch of instance number `slot` is over; the instance may have the next.

        `states` are what the model made of each request's sequence, `rescheduled` the places in the batch of requests
        that the model wants again. Gives back those of them that wait here now.
        """
        instance = self._seating.instances.get(slot)
        if instance is None:
            return []
        finished, instance.running = instance.running, ()
        waiting: list[InferenceRequest] = []
        for index, sequence in enumerate(finished):
            if sequence is None or sequence.current is None:
                continue
            request, sequence.current, sequence.running = sequence.current, None, False
            sequence.idle_at_ns = max(sequence.idle_at_ns, now_ns + self._idle_ns)
            if states is not None:
                sequence.states.update(states[index])
            if index in rescheduled and sequence.instance is instance:
                self._put_back(sequence, request, now_ns)
                waiting.append(request)
            elif self._batching.iterative:
                self._close(sequence)
        for sequence in finished:
            if sequence is not None and sequence.instance is instance:
                self._present(sequence)
        self._seating.release(finished, now_ns)
        return waiting

    def expire(self, now_ns: int) -> list[Rejection]:
        """Also gives up what waited behind cancelled requests, and ends sequences that were silent for too long."""
        rejected, self._dropped = self._dropped, []
        cancelled, self._cancelled = self._cancelled, []
        self._seating.release(cancelled, now_ns)
        for sequence in self._seating.backlog.expire(now_ns):
            error = UnavailableError("timeout of the corresponding sequence has been expired")
            rejected += [Rejection(request, error) for request in self._drop_waiting(sequence)]
            self._close(sequence)
        while (silent := self._seating.silence.take(now_ns)) is not None:
            self._end_silent(silent, now_ns)
        return rejected

    def wake_at(self, *, idle: bool) -> int | None:
        if self._cancelled:
            return 0
        return self._seating.wake_at(idle=idle)

    def cancel(self, request: InferenceRequest) -> bool:
        """Its sequence ends before it; what else that takes along, `expire` gives up. In the backlog that is all."""
        sequence = self._sequence_of.get(id(request))
        if sequence is None:
            return False
        if sequence.instance is None:
            self._seating.backlog.remove(sequence)
            dropped = self._drop_waiting(sequence)
        elif sequence.current is request:
            dropped = self._withdraw(sequence) + self._drop_waiting(sequence)
        else:
            dropped = self._drop_waiting(sequence, sequence.waiting.index(request))
        self._dropped += [Rejection(other, CancelledError("")) for other in dropped if other is not request]
        self._close(sequence)
        self._cancelled.append(sequence)
        return True

    def drain(self) -> list[InferenceRequest]:
        waiting = list(dict.fromkeys(self._sequence_of.values()))
        dropped = [rejection.request for rejection in self._dropped]
        self._dropped.clear()
        for sequence in waiting:
            dropped += self._withdraw(sequence) + self._drop_waiting(sequence)
        self._seating.backlog.clear()
        self._seating.silence.clear()
        sequences = [*waiting, *self._open.values(), *self._cancelled]
        self._cancelled.clear()
        for sequence in sequences:
            self._close(sequence)
        self._seating.release(sequences, 0)
        return dropped

    def __len__(self) -> int:
        return len(self._sequence_of) + len(self._dropped)

    # --- sequences ---

    def _place_of(self, request: InferenceRequest) -> SequenceId:
        """The sequence of a request. Raises InvalidArgumentError when there can be none."""
        if request.batch_size > 1:
            raise InvalidArgumentError(
                f"inference request to model '{self._model}' must specify batch-size 1 due to requirements of sequence "
                "batcher"
            )
        place = request.sequence
        if place is not None and place.correlation_id:
            return place
        if not self._batching.iterative:
            raise InvalidArgumentError(
                f"inference request to model '{self._model}' must specify a non-zero or non-empty correlation ID"
            )
        return SequenceId(next(number for number in self._numbers if number not in self._open), start=True)

    def _begin(self, correlation_id: int | str, now_ns: int) -> LiveSequence:
        sequence = LiveSequence(correlation_id, self._controls.of_sequence(correlation_id))
        self._open[correlation_id] = sequence
        self._seating.seat(sequence, now_ns)
        return sequence

    def _append(self, sequence: LiveSequence, request: InferenceRequest) -> None:
        sequence.waiting.append(request)
        sequence.idle_at_ns = request.queued_ns + self._idle_ns
        self._sequence_of[id(request)] = sequence
        if sequence.instance is None:
            self._seating.backlog.limit(sequence, request)
        elif sequence.current is None:
            self._present(sequence)

    def _put_back(self, sequence: LiveSequence, request: InferenceRequest, now_ns: int) -> None:
        """The next step of an iterative sequence comes before what its client sent meanwhile."""
        request.sequence = SequenceId(sequence.correlation_id)
        request.queued_ns = now_ns
        sequence.idle_at_ns = now_ns + self._idle_ns
        sequence.waiting.appendleft(request)
        self._sequence_of[id(request)] = sequence

    def _present(self, sequence: LiveSequence) -> None:
        """Let the next request run, with all that the model gets beside the client's inputs."""
        if sequence.instance is None or not sequence.waiting:
            return
        request = sequence.current = sequence.waiting.popleft()
        place = request.sequence
        if place is not None:
            if place.start:
                sequence.states = dict(self._initial_states)
            request.inputs.update(self._controls.of_request(place))
        request.inputs.update(sequence.controls)
        request.inputs.update(sequence.states)
        sequence.instance.selector.add(sequence)

    def _drop_waiting(self, sequence: LiveSequence, first: int = 0) -> list[InferenceRequest]:
        """Forget the requests of `sequence` that wait behind its current one, from place `first` on."""
        dropped = list(islice(sequence.waiting, first, None))
        for request in dropped:
            sequence.waiting.pop()
            del self._sequence_of[id(request)]
        return dropped

    def _withdraw(self, sequence: LiveSequence) -> list[InferenceRequest]:
        """Forget the current request of `sequence` unless it runs."""
        request = sequence.current
        if request is None or sequence.running or sequence.instance is None:
            return []
        sequence.instance.selector.withdraw(sequence)
        sequence.current = None
        del self._sequence_of[id(request)]
        return [request]

    def _close(self, sequence: LiveSequence) -> None:
        """Let `sequence` take no more requests: its id is free for another one."""
        sequence.closed = True
        if self._open.get(sequence.correlation_id) is sequence:
            del self._open[sequence.correlation_id]

    def _end_silent(self, sequence: LiveSequence, now_ns: int) -> None:
        """End it unless it waits for an answer: then it is we who are slow, which Triton counts as its silence."""
        if not sequence.is_idle:
            sequence.idle_at_ns = now_ns + self._idle_ns
            self._seating.silence.watch(sequence)
            return
        self._close(sequence)
        self._seating.release([sequence], now_ns)

    def _is_held(self) -> bool:
        if self._held_for is None:
            return False
        in_backlog = self._seating.backlog.request_count
        held = len(self) - in_backlog < self._held_for[0] or in_backlog < self._held_for[1]
        if not held:
            self._held_for = None
        return held
