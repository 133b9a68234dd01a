"""The lines of requests that frontends answer, over HTTP and each transport of gRPC."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import grpc
import pytest
import pytest_asyncio

from charonia_runtime.core.access import AccessTokens
from charonia_runtime.core.errors import InternalError
from charonia_runtime.frontends import v2_grpc, v2_http
from charonia_runtime.frontends.v2_grpc.transports import transport_names
from charonia_runtime.request_log import RequestLog
from tests.support.fake_server import FakeServer, answer, echo_config, failure
from tests.support.grpc_calls import GrpcClient
from tests.support.http_client import Client
from tests.support.streams import OpenModel, counting

pytestmark = pytest.mark.asyncio(loop_scope="session")
NAME = "charonia_runtime.request_log"
TOKEN = "a-token-that-is-a-secret"
BODY = '{"id":"seven","inputs":[{"name":"INPUT","datatype":"FP32","shape":[1],"data":[1.5]}]}'
INFER = {
    "model_name": "echo", "id": "seven",
    "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1.5]}}],
}  # fmt: skip
Lines = Callable[[int], "asyncio.Future[list[str]]"]


@pytest.fixture
def slow() -> OpenModel:
    return OpenModel()


@pytest.fixture
def server(slow: OpenModel) -> FakeServer:
    made = FakeServer()
    made.add(echo_config())
    made.add(echo_config("slow"), slow)
    made.add(echo_config("broken"), lambda request: [failure(request, InternalError("no\nmemory"))])
    made.add(replace(echo_config("counting"), decoupled=True), counting)
    made.add(
        replace(echo_config("stumbling"), decoupled=True),
        lambda request: [answer(request, {}), failure(request, InternalError("too late"))],
    )
    return made


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> RequestLog:
    caplog.set_level(logging.INFO, logger=NAME)
    made = RequestLog()
    made.want("all")
    return made


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """Waits for so many lines, and gives them without what is different each time."""

    async def wait(count: int) -> list[str]:
        deadline = asyncio.get_running_loop().time() + 20
        while True:
            found = [record.getMessage() for record in caplog.records if record.name == NAME]
            if len(found) >= count or asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.01)
        assert TOKEN not in "".join(found)
        steady = [re.sub(r" ms=\d+\.\d{3} ", " ", line) for line in found]
        return [re.sub(r"client=127\.0\.0\.1:\d+", "client=C", line) for line in steady]

    return wait  # type: ignore[return-value]


# --- HTTP ---


@pytest_asyncio.fixture(loop_scope="session")
async def http(server: FakeServer, log: RequestLog) -> AsyncIterator[Client]:
    options = v2_http.Options(http_address="127.0.0.1", http_port=0, request_log=log)
    frontend = v2_http.Frontend(options, server)
    await frontend.start()
    yield Client(frontend)
    await frontend.stop(1)


async def test_http(http: Client, lines: Lines) -> None:
    await http.ask("POST", f"/v2/models/echo/infer?token={TOKEN}", BODY)
    await http.ask("POST", "/v2/models/nope/infer", BODY)
    await http.ask("POST", "/v2/models/broken/versions/1/infer", BODY)
    await http.ask("GET", "/v2/models/echo/infer")
    await http.ask("GET", "/v2/models/echo/ready")
    await http.ask("GET", f"/v1/models/%0aecho?token={TOKEN}")
    known = "model=echo status=200 in=85"
    found = await lines(6)
    assert re.sub("out=[1-9]", "out=N", re.sub(r"out=\d+", "out=1", "\n".join(found))).split("\n") == [
        f"HTTP POST /v2/models/echo/infer {known} out=N id=seven client=C",
        (
            "HTTP POST /v2/models/nope/infer model=nope status=404 in=85 out=N id=- client=C error: Request for unknown "
            "model: 'nope' is not found (POST /v2/repository/index lists every model with its state)"
        ),
        (
            "HTTP POST /v2/models/broken/versions/1/infer model=broken status=500 in=85 out=N id=seven client=C "
            "error: no%0Amemory"
        ),
        (
            "HTTP GET /v2/models/echo/infer model=echo status=405 in=0 out=N id=- client=C error: Method Not Allowed "
            "(inference is POST, documents about models are GET)"
        ),
        "HTTP GET /v2/models/echo/ready model=echo status=200 in=0 out=N id=- client=C",
        (
            "HTTP GET /v1/models/%0aecho model=%0aecho status=404 in=0 out=N id=- client=C error: Not Found (inference is "
            "POST /v2/models/NAME/infer or /v2/models/NAME/versions/NUMBER/infer; paths of TensorFlow Serving are not "
            "served)"
        ),
    ]


async def test_generate(http: Client, lines: Lines) -> None:
    body = '{"id":"g","INPUT":[2.0]}'
    await http.ask("POST", "/v2/models/echo/generate", body)
    await http.ask("POST", "/v2/models/stumbling/generate_stream", body)
    await http.ask("POST", "/v2/models/broken/generate_stream", body)
    assert [re.sub(r"out=\d+", "out=N", line) for line in await lines(3)] == [
        "HTTP POST /v2/models/echo/generate model=echo status=200 in=24 out=N id=g client=C",
        (
            "HTTP POST /v2/models/stumbling/generate_stream model=stumbling status=200 in=24 out=N id=g client=C "
            "error: too late"
        ),
        (
            "HTTP POST /v2/models/broken/generate_stream model=broken status=400 in=24 out=N id=g client=C "
            "error: no%0Amemory"
        ),
    ]


async def test_clients_that_go_away_and_requests_that_cannot_be_read(
    http: Client, slow: OpenModel, lines: Lines
) -> None:
    reader, writer = await asyncio.open_connection(*http.place)
    request = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}"
    writer.write(request.encode())
    await slow.asked(1)
    writer.close()
    assert await lines(1) == [
        (
            "HTTP POST /v2/models/slow/infer model=slow status=499 in=85 out=0 id=seven client=C error: the client went "
            "away before its answer was complete"
        )
    ]
    reader, writer = await asyncio.open_connection(*http.place)
    writer.write(b"POST /x HTTP/1.1\r\nContent-Length: nine\r\n\r\n")
    await reader.read()
    writer.close()
    assert (await lines(2))[1].startswith("HTTP - model=- status=400 in=0 out=")


async def test_only_what_fails(http: Client, log: RequestLog, lines: Lines) -> None:
    log.want("errors")
    await http.ask("POST", "/v2/models/echo/infer", BODY)
    await http.ask("POST", "/v2/models/nope/infer", BODY)
    assert [line.split(" in=")[0] for line in await lines(1)] == [
        "HTTP POST /v2/models/nope/infer model=nope status=404"
    ]


async def test_nothing_when_it_is_off_and_all_while_the_log_is_verbose(
    http: Client, log: RequestLog, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    log.want("off")
    await http.ask("POST", "/v2/models/nope/infer", BODY)
    caplog.set_level(logging.DEBUG, logger=NAME)
    log.follow(is_verbose=True)
    await http.ask("POST", "/v2/models/echo/infer", BODY)
    log.follow(is_verbose=False)
    await http.ask("POST", "/v2/models/echo/infer", BODY)
    assert len(await lines(1)) == 1


# --- gRPC ---


@pytest_asyncio.fixture(loop_scope="session", params=transport_names())
async def frontend(
    request: pytest.FixtureRequest, server: FakeServer, log: RequestLog
) -> AsyncIterator[v2_grpc.Frontend]:
    options = v2_grpc.Options(
        grpc_address="127.0.0.1", grpc_port=0, grpc_transport=request.param, request_log=log,
        access_tokens=AccessTokens([TOKEN]),
    )  # fmt: skip
    frontend = v2_grpc.Frontend(options, server)
    await frontend.start()
    yield frontend
    await frontend.stop(1)


@pytest_asyncio.fixture(loop_scope="session")
async def client(frontend: v2_grpc.Frontend) -> AsyncIterator[GrpcClient]:
    async with GrpcClient(frontend.address) as made:
        yield made


METADATA = (("authorization", f"Bearer {TOKEN}"),)


async def test_unary_calls(client: GrpcClient, lines: Lines) -> None:
    await client.call("ModelInfer", INFER, metadata=METADATA)
    await client.call("ModelReady", {"name": "echo"}, metadata=METADATA)
    for method, request, metadata in [
        ("ModelInfer", {**INFER, "model_name": "nope"}, METADATA),
        ("ModelInfer", {**INFER, "model_name": "broken"}, METADATA),
        ("ModelInfer", INFER, ()),
    ]:
        with pytest.raises(grpc.aio.AioRpcError):
            await client.call(method, request, metadata=metadata)
    with pytest.raises(grpc.aio.AioRpcError):
        await client.raw(f"/some.Service/Method?token={TOKEN}", b"", metadata=METADATA)
    found = await lines(6)
    assert [re.sub(r"in=\d+ out=\d+", "S", line) for line in found[:4]] == [
        "gRPC ModelInfer model=echo status=OK S id=seven client=C",
        "gRPC ModelReady model=echo status=OK S id=- client=C",
        (
            "gRPC ModelInfer model=nope status=NOT_FOUND S id=seven client=C error: Request for unknown model: 'nope' is "
            "not found (POST /v2/repository/index lists every model with its state)"
        ),
        "gRPC ModelInfer model=broken status=INTERNAL S id=seven client=C error: no%0Amemory",
    ]
    assert found[4].startswith("gRPC ModelInfer model=- status=UNAUTHENTICATED in=0 out=0 id=- client=C error: ")
    assert found[5] == (
        "gRPC some.Service/Method model=- status=UNIMPLEMENTED in=0 out=0 id=- client=C error: there is no such method"
    )
    assert re.search(r"in=[1-9]\d* out=[1-9]", found[0])


async def test_a_stream_has_a_line_for_each_request(client: GrpcClient, lines: Lines) -> None:
    await client.streamed(
        [INFER, {**INFER, "model_name": "counting", "id": "c"}, {**INFER, "model_name": "nope", "id": "n"}],
        metadata=METADATA,
    )
    await client.streamed([{**INFER, "model_name": "stumbling", "id": "s"}], metadata=METADATA)
    found = [re.sub(r"in=\d+ out=\d+", "S", line) for line in await lines(4)]
    assert sorted(found[:3]) == [
        "gRPC ModelStreamInfer model=counting status=OK S id=c client=C",
        "gRPC ModelStreamInfer model=echo status=OK S id=seven client=C",
        (
            "gRPC ModelStreamInfer model=nope status=NOT_FOUND S id=n client=C error: Request for unknown model: 'nope' is "
            "not found (POST /v2/repository/index lists every model with its state)"
        ),
    ]
    assert found[3:] == ["gRPC ModelStreamInfer model=stumbling status=INTERNAL S id=s client=C error: too late"]


async def test_calls_that_are_cancelled_or_too_late(client: GrpcClient, slow: OpenModel, lines: Lines) -> None:
    request = {**INFER, "model_name": "slow"}
    with pytest.raises(grpc.aio.AioRpcError):
        await client.call("ModelInfer", request, metadata=METADATA, timeout=0.3)
    stream = client.stream([request], metadata=METADATA)
    await slow.asked(2)
    stream.cancel()
    unary, streamed = await lines(2)
    assert re.match(r"gRPC ModelInfer model=slow status=(CANCELLED|DEADLINE_EXCEEDED) in=\d+ out=0 id=seven", unary)
    assert re.match(r"gRPC ModelStreamInfer model=slow status=CANCELLED in=\d+ out=0 id=seven", streamed)
