"""What a client without a valid token sees of HTTP, byte by byte."""

from collections.abc import AsyncIterator

import pytest

from charonia_runtime.core.access import AccessTokens
from charonia_runtime.core.datatypes import DataType
from tests.support.fake_server import FakeServer, echo_config
from tests.support.http_client import Client, http_frontend

INFER, GENERATE = "/v2/models/echo/infer", "/v2/models/echo/generate"
BODY = '{"inputs":[{"name":"INPUT","datatype":"INT32","shape":[1],"data":[1]}]}'
REFUSAL = b'{"error":"the access token is not one that this server accepts"}'


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    server.add(echo_config("echo", DataType.INT32))
    return server


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with http_frontend(server, access_tokens=AccessTokens(["sesame"]), path_prefix=("/api/echo",)) as client:
        yield client


@pytest.mark.parametrize("prefix", ["", "/api/echo"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", INFER), ("GET", INFER), ("POST", GENERATE), ("POST", "/v2/models/echo/generate_stream"), ("GET", "/v2"),
        ("GET", "/v2/models/echo"), ("POST", "/v2/repository/index"), ("DELETE", "/v2/logging"),
    ],
)  # fmt: skip
async def test_a_refusal(client: Client, server: FakeServer, prefix: str, method: str, path: str) -> None:
    answer = await client.ask(method, prefix + path, BODY, {"Authorization": "Bearer open"})
    assert answer.status_line == "HTTP/1.1 401 Unauthorized"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == REFUSAL
    assert not server.requests


@pytest.mark.parametrize("prefix", ["", "/api/echo"])
@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/v2/models/echo/ready"])
async def test_probes_need_no_token(client: Client, prefix: str, path: str) -> None:
    assert (await client.ask("GET", prefix + path)).status == 200


async def test_a_connection_is_good_for_another_try(client: Client) -> None:
    async with client.connect() as connection:
        for token, status in [("open", 401), ("sesame", 200)]:
            head = f"POST {INFER} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(BODY)}\r\n\r\n"
            await connection.send((head + BODY).encode())
            assert (await connection.answer()).status == status


async def test_generate_with_a_token(client: Client, server: FakeServer) -> None:
    await client.ask("POST", GENERATE, '{"INPUT":[1]}', {"authorization": "sesame"})
    assert len(server.requests) == 1
