"""What traces are told of gRPC's calls: where each began and ended, once, however it ended."""

import asyncio
from typing import Any

import grpc
import pytest

from charonia_runtime.core.errors import UnavailableError
from tests.support.fake_server import FakeServer, answer, echo_config, failure
from tests.support.grpc_calls import GrpcClient, message, refusal
from tests.support.streams import OpenModel, request

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

RECEIVED = ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END"]
SENT = ["GRPC_SEND_START", "GRPC_SEND_END"]


class Recorded:
    """A trace that keeps what it is told."""

    def __init__(self, model: str, parent: str | None) -> None:
        self.model = model
        self.parent = parent
        self.notes: list[str] = []
        self.ends = 0

    def note(self, name: str, ns: int) -> None:
        assert ns > 0
        assert not self.ends
        self.notes.append(name)

    def end(self) -> None:
        self.ends += 1


class Tracing:
    active = True

    def __init__(self) -> None:
        self.traces: list[Recorded] = []

    def sample(self, model: str, parent: str | None) -> Any:
        self.traces.append(Recorded(model, parent))
        return self.traces[-1]


@pytest.fixture
def traces(server: FakeServer) -> list[Recorded]:
    tracing = Tracing()
    server.tracing = tracing
    return tracing.traces


async def test_a_call(server: FakeServer, client: GrpcClient, traces: list[Recorded]) -> None:
    await client.raw("ModelInfer", message(request("echo")), metadata=(("traceparent", "00-a-b-01"),))
    (trace,) = traces
    assert (trace.model, trace.parent) == ("echo", "00-a-b-01")
    assert (trace.notes, trace.ends) == (RECEIVED + SENT, 1)
    assert server.requests[0].trace is trace


async def test_a_stream(client: GrpcClient, traces: list[Recorded]) -> None:
    await client.streamed([request("echo"), request("counting", "", 1.0, 2.0)])
    assert [(trace.notes, trace.ends) for trace in traces] == [(RECEIVED + SENT, 1), (RECEIVED + 2 * SENT, 1)]


async def test_calls_that_fail(server: FakeServer, client: GrpcClient, traces: list[Recorded]) -> None:
    server.add(echo_config("faulty"), lambda asked: [failure(asked, UnavailableError("busy"))])
    await refusal(client.raw("ModelInfer", message(request("faulty"))))
    await refusal(client.raw("ModelInfer", message(request("echo", parameters={"x": {}}))))
    await client.streamed([request("faulty"), request("echo", parameters={"x": {}})])
    assert [trace.ends for trace in traces] == [1, 1, 1, 1]
    assert traces[0].notes == traces[2].notes == RECEIVED + SENT


async def test_clients_that_go(server: FakeServer, slow: OpenModel, client: GrpcClient, traces: list[Recorded]) -> None:
    call, stream = asyncio.ensure_future(client.raw("ModelInfer", message(request("slow")))), client.stream()
    await stream.write(message(request("slow")))
    asked = await slow.asked(2)
    call.cancel()
    stream.cancel()
    assert await stream.code() is grpc.StatusCode.CANCELLED
    async with asyncio.timeout(10):
        while len(server.cancelled) < 2:
            server.cancel_arrived.clear()
            await server.cancel_arrived.wait()
    for one in asked:
        server.answer(one, [answer(one, {})])
    await client.call("ServerReady")
    assert [trace.ends for trace in traces] == [1, 1]
