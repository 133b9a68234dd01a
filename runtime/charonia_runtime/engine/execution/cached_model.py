"""`CachedModel`: a model in front of which a response cache stands."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Final

from typing_extensions import override

from charonia_runtime.core.cache import ResponseCache
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import CancelledError, InferenceError, UnavailableError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, ResponseSink
from charonia_runtime.core.scheduling import DynamicBatching
from charonia_runtime.core.statistics import FailureReason
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.execution.admission import Admission, MemoryResolver
from charonia_runtime.engine.execution.answers import write
from charonia_runtime.engine.execution.cache_entries import input_bytes, key_of, pack_response, unpack_response
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.execution.ordering import ResponseOrder
from charonia_runtime.engine.execution.wrapped_model import WrappedModel
from charonia_runtime.thread_pools import COPYING

logger = logging.getLogger(__name__)

_DIGESTED_AT_ONCE_BYTES: Final = 256 * 1024
"""Keys of larger requests are made in a thread: half a millisecond is all that the event loop has for one."""


class CachedModel(WrappedModel):
    """
    Answers what the cache knows, passes on the rest; used on the event loop.

    Requests are checked before they are looked up. Answers that are errors are not kept.
    """

    def __init__(
        self,
        model: ModelCopy,
        cache: ResponseCache,
        resolve_memory: MemoryResolver | None = None,
        *,
        identifier: str | None = None,
    ) -> None:
        """`identifier` tells the model's entries in the cache from those of others; by default it is its name."""
        super().__init__(model)
        self._identifier = model.config.name if identifier is None else identifier
        self._cache = cache
        self._admission = Admission(model.config, resolve_memory)
        self._order = ResponseOrder() if _keeps_order(model.config) else None
        self._loop = asyncio.get_running_loop()
        self._own = 0
        """Requests that are being looked up, or answered from the cache."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    # --- as the model ---

    @property
    @override
    def in_flight(self) -> int:
        return self._own + self._model.in_flight

    @override
    def cancel(self, request: InferenceRequest) -> None:
        request.cancelled = True
        self._model.cancel(request)

    @override
    async def drain(self) -> None:
        while self.in_flight:
            await self._idle.wait()
            await self._model.drain()

    @override
    async def close(self) -> None:
        self._closed = True
        await self._idle.wait()
        await self._model.close()

    # --- requests ---

    @override
    def submit(self, request: InferenceRequest) -> None:
        """Raises InferenceError when the request is refused; then its sink hears nothing and nothing is counted."""
        if self._closed:
            raise UnavailableError(
                f"{request.error_prefix}Server is stopping, scheduler for model has stopped accepting new inference "
                "requests"
            )
        self._admission.check(request)
        request.arrival_ns = request.queued_ns = begin_ns = time.monotonic_ns()
        if input_bytes(request) > _DIGESTED_AT_ONCE_BYTES:
            self._begin(request, self._look_up_large(request, begin_ns))
            return
        key = key_of(request, self._identifier, self.version)
        found = self._cache.look_up(key)
        if found is None or isinstance(found, bytes):
            self._serve(request, key, found, begin_ns)
            if self._order is not None:
                self._order.add(request)
        else:
            self._begin(request, self._await_entry(request, key, found, begin_ns))

    def _serve(self, request: InferenceRequest, key: bytes, entry: bytes | None, begin_ns: int) -> None:
        """Answer with `entry` in the loop's next turn, or pass the request on, which may raise InferenceError."""
        response = self._response(request, entry) if entry is not None else None
        lookup_ns = time.monotonic_ns() - begin_ns
        if response is not None:
            self._enter()
            self._loop.call_soon(self._answer, request, response, begin_ns, lookup_ns)
            return
        sink = request.sink
        request.sink = _Recorder(self, request, sink, key, lookup_ns)
        try:
            self._model.submit(request)
        except InferenceError:
            request.sink = sink
            raise

    def _response(self, request: InferenceRequest, entry: bytes) -> InferenceResponse | None:
        """What `entry` says to this request; None where it says nothing, and the model has to."""
        try:
            outputs, parameters = unpack_response(entry)
            outputs = [_placed(tensor, request) for tensor in outputs]
        except (ValueError, InferenceError) as error:
            logger.warning("model '%s': an entry of the response cache is of no use: %s", self.config.name, error)
            return None
        return InferenceResponse(request.model_name, self.version, request.id, outputs, parameters)

    def _answer(self, request: InferenceRequest, response: InferenceResponse, begin_ns: int, lookup_ns: int) -> None:
        statistics = self.statistics
        now_ns = time.monotonic_ns()
        statistics.record_lookup(lookup_ns, now_ns, hit=True)
        statistics.queue.add(begin_ns - request.queued_ns)
        statistics.success.add(now_ns - request.arrival_ns)
        self._send(request, response)
        self._leave()

    def record(self, request: InferenceRequest, key: bytes, response: InferenceResponse, lookup_ns: int) -> None:
        """Take the model's answer to a request that was not found: keep it, and pass it on."""
        statistics = self.statistics
        if not response.final:
            pass
        elif response.error is not None or response.flag_only:
            statistics.record_lookup(lookup_ns, time.monotonic_ns(), hit=False)
        else:
            begin_ns = time.monotonic_ns()
            parts = pack_response(request, response)
            if parts is not None:
                self._cache.insert(key, parts)
            now_ns = time.monotonic_ns()
            miss_ns = lookup_ns + now_ns - begin_ns
            statistics.record_lookup(miss_ns, now_ns, hit=False)
            statistics.success.ns += miss_ns
        self._send(request, response)

    def _send(self, request: InferenceRequest, response: InferenceResponse) -> None:
        released = [(request, response)] if self._order is None else self._order.release(request, response)
        for next_request, next_response in released:
            try:
                next_request.sink.send(next_response)
            except Exception:
                logger.exception("model '%s': delivering a response failed", self.config.name)

    # --- what takes its time ---

    def _begin(self, request: InferenceRequest, lookup: Coroutine[None, None, None]) -> None:
        self._enter()
        if self._order is not None:
            self._order.add(request)
        task = self._loop.create_task(self._to_end(request, lookup))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _to_end(self, request: InferenceRequest, lookup: Coroutine[None, None, None]) -> None:
        try:
            await lookup
        except InferenceError as error:
            self._refuse(request, error)
        finally:
            self._leave()

    async def _look_up_large(self, request: InferenceRequest, begin_ns: int) -> None:
        key = await COPYING.run(partial(key_of, request, self._identifier, self.version), size=input_bytes(request))
        found = self._cache.look_up(key)
        entry = found if found is None or isinstance(found, bytes) else await found
        self._serve_later(request, key, entry, begin_ns)

    async def _await_entry(
        self, request: InferenceRequest, key: bytes, found: Awaitable[bytes | None], begin_ns: int
    ) -> None:
        self._serve_later(request, key, await found, begin_ns)

    def _serve_later(self, request: InferenceRequest, key: bytes, entry: bytes | None, begin_ns: int) -> None:
        if request.cancelled:
            self.statistics.record_failure(time.monotonic_ns() - request.arrival_ns, FailureReason.CANCELED)
            raise CancelledError("")
        self._serve(request, key, entry, begin_ns)

    def _refuse(self, request: InferenceRequest, error: InferenceError) -> None:
        """Too late to raise it."""
        self._send(request, InferenceResponse(request.model_name, self.version, request.id, error=error))

    def _enter(self) -> None:
        self._own += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._own -= 1
        if not self._own:
            self._idle.set()


class _Recorder:
    """The sink of a request that was not found, in place of its own."""

    __slots__ = ("_key", "_lookup_ns", "_model", "_request", "_sink")

    def __init__(
        self, model: CachedModel, request: InferenceRequest, sink: ResponseSink, key: bytes, lookup_ns: int
    ) -> None:
        self._model = model
        self._request = request
        self._sink = sink
        self._key = key
        self._lookup_ns = lookup_ns

    def send(self, response: InferenceResponse) -> None:
        self._request.sink = self._sink
        self._model.record(self._request, self._key, response, self._lookup_ns)


def _placed(tensor: Tensor, request: InferenceRequest) -> Tensor:
    """The tensor where the request wants it: itself, or in the client's memory. Raises InferenceError."""
    for output in request.outputs:
        if output.name == tensor.name and output.memory is not None and output.shared_memory is not None:
            return write(tensor, output.memory, output.shared_memory)
    return tensor


def _keeps_order(config: ModelConfig) -> bool:
    return isinstance(config.scheduling, DynamicBatching) and config.scheduling.preserve_ordering
