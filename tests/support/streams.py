"""Streams of inference requests: models for them, their messages, what came back."""

import asyncio
from typing import Any

import grpc.aio
import numpy as np

from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from tests.support.fake_server import answer, end


class OpenModel:
    """A model whose requests stay open until the test answers them."""

    def __init__(self) -> None:
        self.requests: list[InferenceRequest] = []
        self._asked = asyncio.Condition()

    def __call__(self, request: InferenceRequest) -> None:
        self.requests.append(request)
        asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self) -> None:
        async with self._asked:
            self._asked.notify_all()

    async def asked(self, count: int) -> list[InferenceRequest]:
        """The requests, once there are `count` of them."""
        async with self._asked:
            await self._asked.wait_for(lambda: len(self.requests) >= count)
        return self.requests


def counting(request: InferenceRequest) -> list[InferenceResponse]:
    """A decoupled model: one response for each element, then the final flag alone."""
    elements = request.inputs["INPUT"].as_numpy() if request.inputs else np.zeros(0)
    return [*(answer(request, {"OUTPUT": np.array([value], np.float32)}) for value in elements), end(request)]


def request(model: str, identifier: str = "", *values: float, **fields: Any) -> dict[str, Any]:
    tensor = {"name": "INPUT", "datatype": "FP32", "shape": [len(values)], "contents": {"fp32_contents": values}}
    return {"model_name": model, "id": identifier, "inputs": [tensor], **fields}


def summary(responses: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Id and error of each response."""
    return [(found["infer_response"].get("id", ""), found.get("error_message", "")) for found in responses]


async def rest_of(call: Any) -> list[bytes]:
    """Every response that is still to come."""
    found = []
    while (data := await call.read()) is not grpc.aio.EOF:
        found.append(data)
    return found
