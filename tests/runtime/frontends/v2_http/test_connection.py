"""The wire itself: framing, keep-alive, limits and hostile clients."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from charonia_runtime.core.datatypes import DataType
from tests.support.fake_server import FakeServer, echo, echo_config
from tests.support.http_client import Client, http_frontend

INFER = "/v2/models/echo/infer"
BODY = b'{"inputs":[{"name":"INPUT","datatype":"INT32","shape":[2],"data":[1,2]}]}'
ANSWER = (
    b'{"model_name":"echo","model_version":"1","outputs":'
    b'[{"name":"OUTPUT","datatype":"INT32","shape":[2],"data":[1,2]}]}'
)


def request(body: bytes = BODY, head: str = "") -> bytes:
    return f"POST {INFER} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    server.add(echo_config("echo", DataType.INT32))
    return server


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with http_frontend(server, http_max_input_size=1_000_000, http_read_timeout_secs=30) as client:
        yield client


async def test_bytes_of_an_answer(client: Client) -> None:
    """No Date, no Server, Triton's order and capitals."""
    async with client.connect() as connection:
        await connection.send(request(head="Connection: close\r\n"))
        expected = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        )
        assert await connection.rest() == expected % len(ANSWER) + ANSWER


async def test_connections_serve_one_request_after_the_other(client: Client) -> None:
    async with client.connect() as connection:
        for _ in range(3):
            await connection.send(request())
            assert (await connection.answer()).body == ANSWER


async def test_byte_by_byte(client: Client) -> None:
    async with client.connect() as connection:
        for byte in request():
            await connection.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await connection.answer()).body == ANSWER


async def test_pipelined_requests_are_answered_in_order(client: Client, server: FakeServer) -> None:
    async with client.connect() as connection:
        numbers = list(range(50))
        await connection.send(b"".join(request(BODY.replace(b"[1,2]", b"[%d,2]" % number)) for number in numbers))
        answers = [json.loads((await connection.answer()).body) for _ in numbers]
    assert [answer["outputs"][0]["data"][0] for answer in answers] == numbers


async def test_chunked_body(client: Client) -> None:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:10], BODY[10:11], BODY[11:]))
    async with client.connect() as connection:
        await connection.send(f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        await connection.send(chunks + b"0\r\n\r\n")
        assert (await connection.answer()).body == ANSWER


async def test_too_many_chunks(client: Client) -> None:
    async with client.connect() as connection:
        await connection.send(f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        await connection.send(b"1\r\n \r\n" * 65538)
        answer = await connection.answer()
    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    assert json.loads(answer.body)["error"] == (
        "Chunked request body exceeds maximum of 65536 non-empty chunks. Send fewer or larger HTTP chunks."
    )


async def test_consent_before_the_body(client: Client) -> None:
    async with client.connect() as connection:
        await connection.send(
            f"POST {INFER} HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
        )
        assert (await connection.answer(head_only=True)).status_line == "HTTP/1.1 100 Continue"
        await connection.send(BODY)
        assert (await connection.answer()).body == ANSWER


@pytest.mark.parametrize(
    ("head", "connection_header"),
    [("", "close"), ("Connection: keep-alive\r\n", "keep-alive")],
)
async def test_http_1_0(client: Client, head: str, connection_header: str) -> None:
    async with client.connect() as connection:
        await connection.send(f"GET /v2/health/live HTTP/1.0\r\n{head}\r\n".encode())
        answer = await connection.answer()
        assert answer.status_line == "HTTP/1.0 200 OK"
        assert answer.headers["connection"] == connection_header


async def test_large_bodies_arrive_whole(client: Client) -> None:
    """They are received into their own buffer, beside the parser; the connection goes on afterwards."""
    count = 100_000
    header = json.dumps(
        {
            "inputs": [
                {"name": "INPUT", "datatype": "INT32", "shape": [count], "parameters": {"binary_data_size": count * 4}}
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    tensor = bytes(range(256)) * (count // 64)
    tensor = tensor[: count * 4].ljust(count * 4, b"\x01")
    async with client.connect() as connection:
        for _ in range(3):
            await connection.send(request(header + tensor, f"Inference-Header-Content-Length: {len(header)}\r\n"))
            answer = await connection.answer()
            assert answer.headers["content-type"] == "application/octet-stream"
            assert answer.body[int(answer.headers["inference-header-content-length"]) :] == tensor
            await connection.send(request())
            assert (await connection.answer()).body == ANSWER


async def test_a_body_over_the_limit_is_refused_before_it_is_read(client: Client) -> None:
    async with client.connect() as connection:
        await connection.send(f"POST {INFER} HTTP/1.1\r\nContent-Length: 10000000000\r\n\r\n".encode())
        answer = await connection.answer()
    assert answer.status == 400
    assert "exceeds the maximum allowed input size of 1000000 bytes" in answer.body.decode()


async def test_a_chunked_body_over_the_limit_is_refused(client: Client) -> None:
    async with client.connect() as connection:
        await connection.send(f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(11):
            await connection.send(b"%x\r\n%b\r\n" % (100_000, bytes(100_000)))
        assert (await connection.answer()).status == 400


@pytest.mark.parametrize(
    "data",
    [
        b"garbage\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /v2 HTTP/1.1\r\nX: " + b"a" * 200_000,
        b"GET /" + b"a" * 200_000,
        b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 40_000,
        b"POST /v2 HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v2 HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    ],
    ids=lambda data: data[:24].decode("latin-1"),
)
async def test_unreadable_requests_are_told_and_close_their_connection_only(client: Client, data: bytes) -> None:
    async with client.connect() as healthy, client.connect() as connection:
        with suppress(ConnectionError):
            await connection.send(data)
        answer = await connection.answer()
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert json.loads(answer.body)["error"]
        assert await connection.rest() == b""
        await healthy.send(request())
        assert (await healthy.answer()).body == ANSWER


async def test_an_answer_that_is_owed_comes_before_the_closing(client: Client, server: FakeServer) -> None:
    async with client.connect() as connection:
        await connection.send(request() + b"garbage\r\n\r\n")
        assert (await connection.answer()).body == ANSWER
        assert (await connection.answer()).status == 400
        assert await connection.rest() == b""


async def test_a_coding_that_is_not_supported_is_said(client: Client) -> None:
    async with client.connect() as connection:
        await connection.send(f"POST {INFER} HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n".encode())
        answer = await connection.answer()
    assert answer.status_line == "HTTP/1.1 501 Not Implemented"
    assert json.loads(answer.body)["error"] == "Transfer-Encoding is 'gzip, chunked', only 'chunked' is supported"


async def test_trailers_are_no_headers(server: FakeServer) -> None:
    """A gateway in front of the server sets the header; a client cannot add to it behind its body."""
    async with http_frontend(server, http_header_forward_pattern="x-.*") as client, client.connect() as connection:
        head = f"POST {INFER} HTTP/1.1\r\nX-User: gateway\r\nx-user: second\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk = b"%x\r\n%b\r\n" % (len(BODY), BODY)
        await connection.send(head.encode() + chunk + b"0\r\nX-User: client\r\nX-More: client\r\n\r\n")
        assert (await connection.answer()).body == ANSWER
    assert server.requests[0].parameters == {"X-User": "gateway"}


async def test_a_secret_that_is_no_text_is_refused(server: FakeServer) -> None:
    restricted = ("inference:x-key=secret",)
    async with http_frontend(server, http_restricted_api=restricted) as client, client.connect() as connection:
        await connection.send(b"POST %b HTTP/1.1\r\nx-key: \xff\xfe\r\nContent-Length: 0\r\n\r\n" % INFER.encode())
        assert (await connection.answer()).status == 403
        await connection.send(request(head="x-key: secret\r\n"))
        assert (await connection.answer()).body == ANSWER


async def test_unknown_methods_are_refused_like_known_ones(client: Client) -> None:
    async with client.connect() as connection:
        await connection.send(b"FOO /v2 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
        answer = await connection.answer()
        assert (answer.status_line, answer.body) == ("HTTP/1.1 405 Not Allowed", b'{"error":"Method Not Allowed"}')
        await connection.send(request())
        assert (await connection.answer()).body == ANSWER


async def test_an_unknown_method_behind_another_request_repeats_nothing(client: Client, server: FakeServer) -> None:
    async with client.connect() as connection:
        await connection.send(request() + b"FOO /v2 HTTP/1.1\r\n\r\n")
        assert (await connection.answer()).body == ANSWER
        await connection.rest()
    assert len(server.requests) == 1


async def test_offers_of_other_protocols_are_ignored(client: Client) -> None:
    upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    async with client.connect() as connection:
        await connection.send(f"GET /v2/health/live HTTP/1.1\r\n{upgrade}\r\n".encode())
        assert (await connection.answer()).status == 200
        await connection.send(request(head=upgrade))
        assert (await connection.answer()).body == ANSWER
        await connection.send(request())
        assert (await connection.answer()).body == ANSWER


async def test_a_client_that_leaves_has_its_request_cancelled(client: Client, server: FakeServer) -> None:
    server.add(echo_config("echo", DataType.INT32), lambda _: None)
    async with client.connect() as connection:
        await connection.send(request())
        await server.submitted.wait()
    async with asyncio.timeout(5):
        await server.cancel_arrived.wait()
    assert server.cancelled == server.requests
    server.answer(server.requests[0], echo(server.requests[0]))
    await asyncio.sleep(0)
    assert (await client.ask("GET", "/v2/health/live")).status == 200


async def test_stalled_clients_are_closed(server: FakeServer) -> None:
    async with http_frontend(server, http_read_timeout_secs=10) as client:
        listener = client.frontend._listener
        assert listener is not None
        async with client.connect() as silent, client.connect() as slow, client.connect() as idle:
            await slow.send(b"GET /v2 HT")
            await idle.send(request())
            await idle.answer()
            now = asyncio.get_running_loop().time()
            listener.close_stalled(now + 9)
            assert len(listener.connections) == 3
            listener.close_stalled(now + 11)
            assert await silent.rest() == b""
            assert (await slow.answer()).status == 408
            assert await slow.rest() == b""
            await idle.send(request())
            assert (await idle.answer()).body == ANSWER


async def test_stop_waits_for_what_is_in_flight(server: FakeServer) -> None:
    server.add(echo_config("echo", DataType.INT32), lambda _: None)
    async with http_frontend(server) as client, client.connect() as connection:
        await connection.send(request())
        await server.submitted.wait()
        stopping = asyncio.create_task(client.frontend.stop(10))
        await asyncio.sleep(0)
        server.answer(server.requests[0], echo(server.requests[0]))
        answer = await connection.answer()
        await stopping
    assert answer.headers["connection"] == "close"
    assert answer.body == ANSWER


async def test_stop_gives_up_in_time(server: FakeServer) -> None:
    server.add(echo_config("echo", DataType.INT32), lambda _: None)
    async with http_frontend(server) as client, client.connect() as connection:
        await connection.send(request())
        await server.submitted.wait()
        async with asyncio.timeout(5):
            await client.frontend.stop(0.1)
        assert await connection.rest() == b""
    assert server.cancelled == server.requests


async def test_a_retiring_server_serves_on_and_closes_with_the_next_answer(client: Client) -> None:
    async with client.connect() as connection, client.connect() as idle:
        await connection.send(request())
        assert "connection" not in (await connection.answer()).headers
        client.frontend.retire()
        for served in (connection, idle):
            await served.send(request())
            answer = await served.answer()
            assert (answer.headers["connection"], answer.body) == ("close", ANSWER)
            assert await served.rest() == b""
        answer = await client.ask("GET", "/v2/health/live")
        assert (answer.status, answer.headers["connection"]) == (200, "close")


async def test_retiring_tells_those_who_wait_for_their_answer(server: FakeServer) -> None:
    server.add(echo_config("echo", DataType.INT32), lambda _: None)
    async with http_frontend(server) as client, client.connect() as connection:
        await connection.send(request())
        await server.submitted.wait()
        client.frontend.retire()
        server.answer(server.requests[0], echo(server.requests[0]))
        assert (await connection.answer()).headers["connection"] == "close"
        assert await connection.rest() == b""


@pytest.mark.parametrize("ending", ["retire", "stop"])
async def test_pipelined_requests_are_answered_before_the_connection_closes(server: FakeServer, ending: str) -> None:
    server.add(echo_config("echo", DataType.INT32), lambda _: None)
    async with http_frontend(server) as client, client.connect() as connection:
        await connection.send(request() + request())
        await server.submitted.wait()
        stopping = asyncio.create_task(client.frontend.stop(10)) if ending == "stop" else None
        if stopping is None:
            client.frontend.retire()
        await asyncio.sleep(0)
        closings = []
        for index in range(2):
            server.submitted.clear()
            server.answer(server.requests[index], echo(server.requests[index]))
            answer = await connection.answer()
            assert answer.body == ANSWER
            closings.append(answer.headers.get("connection"))
            if not index:
                async with asyncio.timeout(5):
                    await server.submitted.wait()
        assert closings == [None, "close"]
        assert await connection.rest() == b""
        if stopping is not None:
            await stopping
