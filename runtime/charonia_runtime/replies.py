"""Response sinks for coroutines: `Reply` for one answer, `ReplyStream` for many. Used on one event loop."""

import asyncio
from collections.abc import AsyncIterator

from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.request import InferenceResponse


class Reply:
    """
    The sink of a request that has exactly one response; await it.

    A model that sends none or several makes it raise InternalError, as Triton does.
    """

    __slots__ = ("_count", "_future", "_response")

    def __init__(self) -> None:
        self._future: asyncio.Future[InferenceResponse] = asyncio.get_running_loop().create_future()
        self._response: InferenceResponse | None = None
        self._count = 0

    def send(self, response: InferenceResponse) -> None:
        if not response.flag_only:
            self._count += 1
            self._response = response
        if not response.final or self._future.done():
            return
        if self._count == 1 and self._response is not None:
            self._future.set_result(self._response)
        else:
            self._future.set_exception(InternalError(f"expected a single response, got {self._count}"))

    @property
    def done(self) -> bool:
        return self._future.done()

    async def response(self) -> InferenceResponse:
        """The response. Raises its error, if it carries one."""
        response = await self._future
        if response.error is not None:
            raise response.error
        return response


class ReplyStream:
    """The sink of a request with any number of responses; iterate over it. Ends after the final one."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: asyncio.Queue[InferenceResponse] = asyncio.Queue()

    def send(self, response: InferenceResponse) -> None:
        self._queue.put_nowait(response)

    async def __aiter__(self) -> AsyncIterator[InferenceResponse]:
        while True:
            response = await self._queue.get()
            yield response
            if response.final:
                return
