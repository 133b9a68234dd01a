"""`WalkedModel`: a model whose long BYTES inputs are walked in a thread before it gets them."""

import asyncio
import logging
import time
from collections import deque
from functools import partial
from typing import Final

from typing_extensions import override

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import CancelledError, InferenceError, InternalError, UnavailableError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.statistics import FailureReason
from charonia_runtime.core.string_walk import StringWalk, WalkedTensor, walk_strings
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.engine.execution.admission import MemoryResolver, expected_elements
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.execution.wrapped_model import WrappedModel
from charonia_runtime.thread_pools import CODING, PooledCall

logger = logging.getLogger(__name__)

_WALKED_AT_ONCE_BYTES: Final = 128 * 1024
_WALKED_AT_ONCE: Final = 16_384
"""Up to this many elements, or bytes, are left to the model's own admission: it takes two milliseconds for them."""

Walks = dict[str, StringWalk]


class _Walking:
    """A request on its way to its model: its inputs are walked, or it waits behind others of its sequence."""

    __slots__ = ("begin_ns", "call", "is_ready", "is_wanted", "request")

    def __init__(self, request: InferenceRequest) -> None:
        self.request = request
        self.begin_ns = time.monotonic_ns()
        self.call: PooledCall[Walks] | None = None
        self.is_ready = False
        """Whether it waits for nothing but its turn in the sequence."""
        self.is_wanted = True

    def walk(self, tensors: list[tuple[Tensor, int]]) -> Walks:
        """Walk the tensors, for the elements that each should have. Runs in a thread."""
        return {
            tensor.name: walk_strings(tensor.buffer, expected, lambda: self.is_wanted) for tensor, expected in tensors
        }


class WalkedModel(WrappedModel):
    """
    Passes requests on, those with long BYTES inputs when these were walked; used on the event loop.

    A request that is refused then is answered as refused (`InferenceResponse.refused`): it is too late to raise. The
    requests of a sequence keep their order.
    """

    def __init__(self, model: ModelCopy, resolve_memory: MemoryResolver | None = None) -> None:
        super().__init__(model)
        self._resolve_memory = resolve_memory
        self._batched = {
            spec.name: model.config.batches and not spec.is_shape_tensor
            for spec in model.config.inputs
            if spec.datatype is DataType.BYTES
        }
        """Its BYTES inputs, and whether they have a batch dimension."""
        self._walking: dict[int, _Walking] = {}
        """By the identity of their requests."""
        self._lines: dict[int | str, deque[_Walking]] = {}
        """Requests that wait, by their correlation id."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @staticmethod
    def concerns(config: ModelConfig) -> bool:
        """Whether a model with this configuration has inputs to walk."""
        return any(spec.datatype is DataType.BYTES for spec in config.inputs)

    # --- as the model ---

    @property
    @override
    def in_flight(self) -> int:
        return len(self._walking) + self._model.in_flight

    @override
    def submit(self, request: InferenceRequest) -> None:
        for name, batches in self._batched.items():
            tensor = request.inputs.get(name)
            if tensor is not None and tensor.byte_size > _WALKED_AT_ONCE_BYTES and _is_long(tensor, batches=batches):
                self._hold(request)
                return
        if self._lines and request.sequence is not None and request.sequence.correlation_id in self._lines:
            walking = _Walking(request)
            walking.is_ready = True
            self._lines[request.sequence.correlation_id].append(walking)
            self._enter(walking)
            return
        self._model.submit(request)

    @override
    def cancel(self, request: InferenceRequest) -> None:
        request.cancelled = True
        walking = self._walking.get(id(request))
        if walking is None:
            self._model.cancel(request)
        else:
            self._give_up(walking, CancelledError(""), FailureReason.CANCELED)

    @override
    async def drain(self) -> None:
        while self.in_flight:
            await self._idle.wait()
            await self._model.drain()

    @override
    async def close(self) -> None:
        self._closed = True
        for walking in list(self._walking.values()):
            prefix = walking.request.error_prefix
            error = UnavailableError(f"{prefix}Server is stopping, the request was not executed")
            self._give_up(walking, error, FailureReason.OTHER)
        await self._model.close()

    # --- requests that wait ---

    def _hold(self, request: InferenceRequest) -> None:
        """Walk the inputs of a request in a thread. Raises what its model does where it is refused at once."""
        tensors = []
        try:
            for name, batches in self._batched.items():
                tensor = request.inputs.get(name)
                if tensor is not None and _is_long(tensor, batches=batches):
                    if isinstance(tensor.data, SharedMemoryRef) and self._resolve_memory is not None:
                        tensor.data = self._resolve_memory(tensor.data, writable=False)
                    tensors.append((tensor, expected_elements(tensor.shape, batches=batches)))
        except InferenceError:
            tensors = []  # its model finds the same mistake, or one that it looks for before
        if self._closed or not tensors:
            self._model.submit(request)
            return
        walking = _Walking(request)
        sequence = request.sequence
        if sequence is not None and sequence.correlation_id:
            self._lines.setdefault(sequence.correlation_id, deque()).append(walking)
        self._enter(walking)
        walking.call = CODING.start(
            partial(walking.walk, tensors),
            partial(self._walked, walking),
            partial(self._failed, walking),
            size=sum(tensor.byte_size for tensor, _ in tensors),
        )

    def _enter(self, walking: _Walking) -> None:
        self._walking[id(walking.request)] = walking
        self.statistics.pending += 1
        self._idle.clear()

    def _leave(self, walking: _Walking) -> None:
        del self._walking[id(walking.request)]
        self.statistics.pending -= 1
        walking.call = None
        if not self._walking:
            self._idle.set()

    def _walked(self, walking: _Walking, walks: Walks) -> None:
        inputs = walking.request.inputs
        for name, walk in walks.items():
            inputs[name] = WalkedTensor(inputs[name], walk)
        walking.is_ready = True
        self._go_on(walking)

    def _go_on(self, walking: _Walking) -> None:
        """Submit a request whose inputs are walked, and those of its sequence that waited for it, or wait for them."""
        sequence = walking.request.sequence
        line = self._lines.get(sequence.correlation_id) if sequence is not None else None
        if line is None:
            self._submit(walking)
            return
        while line and line[0].is_ready:
            self._submit(line.popleft())
        if not line and sequence is not None:
            self._lines.pop(sequence.correlation_id, None)

    def _submit(self, walking: _Walking) -> None:
        request = walking.request
        self._leave(walking)
        try:
            self._model.submit(request)
        except InferenceError as error:
            if request.trace is not None:
                request.trace.refused()
            self._answer(request, error)
        except Exception:
            logger.exception("model '%s': unexpected error while submitting a request", self.config.name)
            self._answer(request, InternalError("unexpected error while reading the request"))

    def _failed(self, walking: _Walking, error: Exception) -> None:
        """An input could not be walked: a device does not give it."""
        if not isinstance(error, InferenceError):
            logger.error("model '%s': an input cannot be read", self.config.name, exc_info=error)
            error = InternalError("unexpected error while reading the request")
        self._give_up(walking, error, FailureReason.OTHER)

    def _give_up(self, walking: _Walking, error: InferenceError, reason: FailureReason) -> None:
        """Answer a request that will not be submitted."""
        request = walking.request
        walking.is_wanted = False
        if walking.call is not None:
            walking.call.cancel()
        self._leave(walking)
        self.statistics.record_failure(time.monotonic_ns() - walking.begin_ns, reason)
        line = self._lines.get(request.sequence.correlation_id) if request.sequence is not None else None
        if line is not None and walking in line:
            line.remove(walking)
        self._answer(request, error)
        if line:
            self._go_on(line[0])
        elif line is not None and request.sequence is not None:
            self._lines.pop(request.sequence.correlation_id, None)

    def _answer(self, request: InferenceRequest, error: InferenceError) -> None:
        response = InferenceResponse(request.model_name, self.version, request.id, error=error, refused=True)
        try:
            request.sink.send(response)
        except Exception:
            logger.exception("model '%s': delivering a response failed", self.config.name)


def _is_long(tensor: Tensor, *, batches: bool) -> bool:
    """Whether the walk would keep the event loop: by its bytes and by the elements that it should have."""
    if tensor.byte_size <= _WALKED_AT_ONCE_BYTES or tensor.datatype is not DataType.BYTES:
        return False
    return not (batches and not tensor.shape) and expected_elements(tensor.shape, batches=batches) > _WALKED_AT_ONCE
