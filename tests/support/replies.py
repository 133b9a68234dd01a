"""A sink that a test awaits."""

import asyncio

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceResponse
from charonia_runtime.replies import SingleResponse


class Reply(SingleResponse):
    """The sink of a request with one response; used on one event loop."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        super().__init__()
        self._future: asyncio.Future[InferenceResponse] = asyncio.get_running_loop().create_future()

    def send(self, response: InferenceResponse) -> None:
        if not self.keep(response) or self._future.done():
            return
        try:
            self._future.set_result(self.take())
        except InferenceError as error:
            self._future.set_exception(error)

    @property
    def done(self) -> bool:
        return self._future.done()

    async def response(self) -> InferenceResponse:
        """The response. Raises its error, if it carries one."""
        response = await self._future
        if response.error is not None:
            raise response.error
        return response
