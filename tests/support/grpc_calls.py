"""A client that sends bytes: calls of `inference.GRPCInferenceService` below any generated stub."""

from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any, Self

import grpc
import grpc.aio
import pytest
from google.protobuf import json_format
from tritonclient.grpc import service_pb2

SERVICE = "/inference.GRPCInferenceService"
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def message(document: dict[str, Any], name: str = "ModelInferRequest") -> bytes:
    """A serialised message, written as JSON."""
    data: bytes = json_format.ParseDict(document, getattr(service_pb2, name)()).SerializeToString()
    return data


def document(answer: Any) -> dict[str, Any]:
    """A message as JSON."""
    found: dict[str, Any] = json_format.MessageToDict(answer, preserving_proto_field_name=True)
    return found


class GrpcClient:
    """Used as `async with GrpcClient(address) as client`. Failed calls raise `grpc.aio.AioRpcError`."""

    def __init__(self, address: str, **channel: Any) -> None:
        self.channel = grpc.aio.insecure_channel(address, options=_UNLIMITED, **channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    async def raw(self, method: str, data: bytes, **call: Any) -> bytes:
        """The response's bytes; `method` is a name of the service or a full path."""
        path = method if method.startswith("/") else f"{SERVICE}/{method}"
        answer: bytes = await self.channel.unary_unary(path)(data, **{"timeout": 30, **call})
        return answer

    async def call(self, method: str, request: dict[str, Any] | None = None, **call: Any) -> dict[str, Any]:
        """The response as JSON to a request as JSON."""
        data = message(request or {}, f"{method}Request")
        return document(getattr(service_pb2, f"{method}Response").FromString(await self.raw(method, data, **call)))

    def stream(
        self, requests: Iterable[bytes | dict[str, Any]] | AsyncIterator[bytes] | None = None, **call: Any
    ) -> Any:
        """A ModelStreamInfer call that sends `requests` and half-closes; without any, one to write to and read from."""
        method = self.channel.stream_stream(f"{SERVICE}/ModelStreamInfer")
        if requests is None or hasattr(requests, "__aiter__"):
            return method(requests, **{"timeout": 30, **call})
        return method(
            [data if isinstance(data, bytes) else message(data) for data in requests], **{"timeout": 30, **call}
        )

    async def streamed(self, requests: Iterable[bytes | dict[str, Any]], **call: Any) -> list[dict[str, Any]]:
        """Every response to a stream of requests, as JSON."""
        return [stream_document(data) async for data in self.stream(requests, **call)]


def stream_document(data: bytes) -> dict[str, Any]:
    """A response of a stream as JSON."""
    return document(service_pb2.ModelStreamInferResponse.FromString(data))


async def refusal(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str | None]:
    """The status and text that a call fails with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()
