"""The direct strategy: each sequence has its own place in the batches of its instance."""

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.scheduling import DirectStrategy
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.schedulers.dynamic import Likeness
from charonia_runtime.engine.schedulers.sequence.controls import Controls
from charonia_runtime.engine.schedulers.sequence.slots import LiveSequence

_EMPTY_STRING_BYTES = 4
_REMEMBERED_TENSORS = 64


class DirectSelector:
    """
    Position in the batch is slot number, up to the highest slot that has something to run.

    Requests of other shapes than that of the lowest slot wait for a batch of their own.
    """

    __slots__ = ("_delay_ns", "_held_until", "_least", "_likeness", "_ready")

    def __init__(self, config: ModelConfig, strategy: DirectStrategy, capacity: int) -> None:
        self._likeness = Likeness.of(config)
        self._least = strategy.minimum_slot_utilization * capacity
        self._delay_ns = strategy.max_queue_delay_us * 1000 if self._least else 0
        self._ready: dict[int, tuple[LiveSequence, InferenceRequest]] = {}
        self._held_until: int | None = None

    def add(self, sequence: LiveSequence) -> None:
        if sequence.current is not None:
            self._ready[sequence.slot] = (sequence, sequence.current)

    def withdraw(self, sequence: LiveSequence) -> None:
        del self._ready[sequence.slot]

    def take(self, now_ns: int) -> list[LiveSequence | None]:
        self._held_until = None
        if not self._ready:
            return []
        slots = self._alike(sorted(self._ready))
        if self._delay_ns and len(slots) < self._least:
            held_until = min([self._ready[slot][1].queued_ns for slot in slots]) + self._delay_ns
            if now_ns < held_until:
                self._held_until = held_until
                return []
        chosen: list[LiveSequence | None] = [None] * (slots[-1] + 1)
        for slot in slots:
            chosen[slot] = self._ready.pop(slot)[0]
        return chosen

    def wake_at(self) -> int | None:
        return self._held_until if self._ready else None

    def _alike(self, slots: list[int]) -> list[int]:
        if self._likeness is None:
            return slots
        kinds = [self._likeness.of_request(self._ready[slot][1]) for slot in slots]
        return [slot for slot, kind in zip(slots, kinds, strict=True) if kind == kinds[0]]


class NullRequest(InferenceRequest):
    """Fills the place of a slot that has nothing to run. Nobody waits for its responses, and it is not counted."""

    __slots__ = ()

    wants_nothing = True


class NullRequests:
    """Makes null requests of one model: not READY, zeros of the shapes that the batch has otherwise."""

    __slots__ = ("_controls", "_zeros")

    def __init__(self, controls: Controls) -> None:
        self._controls = controls.null
        self._zeros: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def like(self, request: InferenceRequest) -> NullRequest:
        """A null request that fits into the batch of `request`."""
        controls = self._controls
        inputs = {name: controls.get(name) or self._zero(tensor) for name, tensor in request.inputs.items()}
        return NullRequest(request.model_name, inputs, _NOBODY, request.model_version)

    def _zero(self, tensor: Tensor) -> Tensor:
        key = (tensor.name, tensor.shape)
        zero = self._zeros.get(key)
        if zero is None:
            if len(self._zeros) >= _REMEMBERED_TENSORS:
                self._zeros.clear()
            data = bytes(tensor.element_count * (tensor.datatype.item_size or _EMPTY_STRING_BYTES))
            zero = self._zeros[key] = Tensor(tensor.name, tensor.datatype, tensor.shape, memoryview(data))
        return zero


class _Nobody:
    __slots__ = ()

    def send(self, response: InferenceResponse) -> None:
        """Responses to null requests say nothing."""


_NOBODY = _Nobody()
