"""
Requests and sinks for the tests of the engine.

    sink = RecordingSink()
    request = a_request(sink=sink, inputs={"INPUT0": np.zeros((1, 16), np.int32)})
    await sink.done
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np

from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.tensor import Tensor


class RecordingSink:
    """Keeps every response. Fails the test that sends one after the final one."""

    def __init__(self) -> None:
        self.responses: list[InferenceResponse] = []
        self.ended = False
        self._waiting: asyncio.Future[None] | None = None

    def send(self, response: InferenceResponse) -> None:
        self.responses.append(response)
        assert not self.ended, "a response after the final one"
        self.ended = response.final
        if self.ended and self._waiting is not None:
            self._waiting.set_result(None)

    async def wait(self) -> list[InferenceResponse]:
        """All responses, once the final one has come."""
        if not self.ended:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self.responses

    async def response(self) -> InferenceResponse:
        """The only response; its error is raised."""
        (response,) = await self.wait()
        if response.error is not None:
            raise response.error
        return response


def a_request(
    model: str = "simple",
    inputs: Mapping[str, np.ndarray[Any, Any] | Tensor] | None = None,
    *,
    sink: RecordingSink | None = None,
    **fields: Any,
) -> InferenceRequest:
    """A request with these arrays as inputs; `fields` are further ones of InferenceRequest."""
    tensors = {
        name: array if isinstance(array, Tensor) else Tensor.from_numpy(name, array)
        for name, array in (inputs or {}).items()
    }
    return InferenceRequest(model, tensors, sink or RecordingSink(), **fields)
