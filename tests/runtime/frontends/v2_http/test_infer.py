"""Inference and generation over HTTP: stages of refusal, compression, forwarding, streams."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.core.followed_triton import FollowedTriton
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.wires.http1.answer_writer import AnswerWriter
from tests.support.fake_server import FakeServer, answer, echo_config, end, failure
from tests.support.http_client import Client, http_frontend

INFER = "/v2/models/echo/infer"
JSON, TEXT = "application/json", "text/plain"
BODY = b'{"inputs":[{"name":"INPUT","datatype":"INT32","shape":[2],"data":[1,2]}]}'
LENGTH = "Inference-Header-Content-Length"


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    server.add(echo_config("echo", DataType.INT32))
    server.add(echo_config("text", DataType.BYTES, (1,)))
    return server


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with http_frontend(server, http_max_input_size=1_000_000) as client:
        yield client


def decoupled(respond: Any) -> tuple[ModelConfig, Any]:
    config = ModelConfig("repeat", inputs=(TensorSpec("IN", DataType.INT32, (-1,)),), decoupled=True)
    return config, respond


REFUSALS: list[tuple[str, bytes, dict[str, str], int, str, str]] = [
    ("/v2/models/nothing/infer", BODY, {}, 404, TEXT, "Request for unknown model: 'nothing' is not found"),
    ("/v2/models/echo/versions/5/infer", BODY, {}, 404, TEXT,
     "Request for unknown model: 'echo' version 5 is not found"),
    ("/v2/models/repeat/infer", BODY, {}, 501, TEXT,
     "HTTP end point doesn't support models with decoupled transaction policy"),
    (INFER, BODY, {LENGTH: "-1"}, 400, TEXT, "inference header size should be in range (0, 73), got: -1"),
    (INFER, BODY, {LENGTH: "74"}, 400, TEXT, "inference header size should be in range (0, 73), got: 74"),
    (INFER, BODY, {LENGTH: "99999999999"}, 400, TEXT,
     ("Unable to parse Inference-Header-Content-Length, value is out of range [ -2147483648, 2147483647 ], got: "
     "99999999999")),
    (INFER, BODY, {LENGTH: "10"}, 500, JSON, "failed to parse the request JSON buffer: Invalid value. at 10"),
    (INFER, b"hello", {}, 500, JSON, "failed to parse the request JSON buffer: Invalid value. at 0"),
    (INFER, b"hello", {LENGTH: "0"}, 400, JSON,
     "[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model 'echo'. Expected 4, got 5"),
    (INFER, b"hello", {LENGTH: "abc"}, 400, TEXT, "Unable to parse Inference-Header-Content-Length, got: abc"),
    (INFER, b"{}", {}, 500, JSON,
     "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
    (INFER, BODY, {"Content-Encoding": "br"}, 501, TEXT, "Unsupported compression type"),
    (INFER, b"", {"Content-Encoding": "gzip"}, 400, TEXT, "nothing to be decompressed"),
    (INFER, gzip.compress(b'{"inputs":'), {"Content-Encoding": "gzip"}, 500, JSON,
     "failed to parse the request JSON buffer: Invalid value. at 10"),
    (INFER, gzip.compress(bytes(1_000_001)), {"Content-Encoding": "gzip"}, 400, TEXT,
     ("Decompressed data size exceeds the maximum allowed value of 1000000 bytes. Use --http-max-input-size to "
     "increase the limit.")),
]  # fmt: skip


async def test_refusals(client: Client, server: FakeServer) -> None:
    server.add(*decoupled(lambda _: None))
    for path, body, headers, status, content_type, text in REFUSALS:
        refusal = await client.ask("POST", path, body, headers)
        found = (refusal.status, refusal.headers["content-type"], json.loads(refusal.body)["error"])
        assert found == (status, content_type, text)
        assert ("accept-encoding" in refusal.headers) == (text == "Unsupported compression type")
    assert not server.requests


async def test_a_length_that_is_no_number_is_zero_for_old_releases(server: FakeServer) -> None:
    async with http_frontend(server, triton=FollowedTriton("2.51.0", newest_rules=False)) as client:
        refusal = await client.ask("POST", INFER, b"hello", {LENGTH: "abc"})
    assert "input byte size mismatch for input 'raw_input'" in refusal.body.decode()


async def test_refusals_of_the_engine_and_of_the_execution(client: Client, server: FakeServer) -> None:
    server.submit_error = UnavailableError("[request id: x] Exceeds maximum queue size")
    refusal = await client.ask("POST", INFER, BODY)
    assert (refusal.status, refusal.headers["content-type"]) == (503, JSON)
    server.submit_error = None
    server.add(echo_config("echo"), lambda request: [failure(request, UnavailableError("Request timeout expired"))])
    refusal = await client.ask("POST", INFER, BODY)
    assert (refusal.status, refusal.headers["content-type"]) == (503, TEXT)


async def test_a_request_whose_answer_cannot_be_written(client: Client, server: FakeServer) -> None:
    halves = {"OUTPUT": np.zeros(1, np.float16)}
    server.add(echo_config("echo", DataType.INT32), lambda request: [answer(request, halves)])
    refusal = await client.ask("POST", INFER, BODY)
    assert (refusal.status, refusal.headers["content-type"]) == (400, TEXT)
    assert "sending FP16 data via JSON is not supported" in refusal.body.decode()


async def test_binary_answers(client: Client) -> None:
    body = BODY[:-1] + b',"outputs":[{"name":"OUTPUT","parameters":{"binary_data":true}}]}'
    got = await client.ask("POST", INFER, body)
    length = int(got.headers["inference-header-content-length"])
    assert got.headers["content-type"] == "application/octet-stream"
    assert json.loads(got.body[:length])["outputs"][0]["parameters"] == {"binary_data_size": 8}
    assert np.frombuffer(got.body[length:], np.int32).tolist() == [1, 2]


async def test_raw_requests_get_binary_answers(client: Client) -> None:
    got = await client.ask("POST", INFER, np.array([7, 8], np.int32).tobytes(), {LENGTH: "0"})
    assert np.frombuffer(got.body[int(got.headers[LENGTH.lower()]) :], np.int32).tolist() == [7, 8]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("count", [2, 50_000])
async def test_compression_both_ways(client: Client, encoding: str, count: int) -> None:
    """Small and large: the large ones are worked on in a thread."""
    numbers = list(range(count))
    body = json.dumps({"inputs": [{"name": "INPUT", "datatype": "INT32", "shape": [count], "data": numbers}]}).encode()
    packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    got = await client.ask("POST", INFER, packed, {"Content-Encoding": encoding, "Accept-Encoding": encoding})
    assert got.headers["content-encoding"] == encoding
    unpacked = gzip.decompress(got.body) if encoding == "gzip" else zlib.decompress(got.body)
    assert json.loads(unpacked)["outputs"][0]["data"] == numbers


async def test_a_mislabelled_encoding_is_seen_through(client: Client) -> None:
    got = await client.ask("POST", INFER, gzip.compress(BODY), {"Content-Encoding": "deflate"})
    assert got.status == 200


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"), ("gzip;q=0.3, deflate;q=0.9", "deflate"), ("deflate;q=0.5,gzip;q=0.5", "deflate"),
        ("identity, gzip", None), ("br, *, GZIP", None), ("gzip;q=0", None), ("gzip;q=x, deflate", "deflate"), ("", None),
    ],
)  # fmt: skip
async def test_the_choice_of_an_encoding(client: Client, accepted: str, encoding: str | None) -> None:
    got = await client.ask("POST", INFER, BODY, {"Accept-Encoding": accepted})
    assert got.headers.get("content-encoding") == encoding
    refusal = await client.ask("POST", INFER, b"x", {"Accept-Encoding": accepted})
    assert "content-encoding" not in refusal.headers


async def test_headers_become_parameters(server: FakeServer) -> None:
    async with http_frontend(server, http_header_forward_pattern="^(x-|timeout)") as client:
        await client.ask("POST", INFER, BODY, {"X-Trace": "é", "Other": "1"})
        assert server.requests[-1].parameters == {"X-Trace": "é"}
        refusal = await client.ask("POST", INFER, BODY, {"timeout": "5"})
        assert (refusal.status, refusal.body) == (
            400, b'{"error":"Header \'timeout\' is reserved for Triton usage and cannot be forwarded."}',
        )  # fmt: skip


async def test_generate(client: Client) -> None:
    got = await client.ask("POST", "/v2/models/text/generate", '{"id":"g","INPUT":"hello","temperature":0.5}')
    assert (got.status, got.headers["content-type"], got.headers["transfer-encoding"]) == (200, JSON, "chunked")
    assert got.body == b'{"OUTPUT":"hello","id":"g","model_name":"text","model_version":"1"}'


@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
async def test_refusals_of_generate(client: Client, verb: str) -> None:
    compressed = {"Content-Encoding": "gzip"}
    for model, body, headers, status, text in [
        ("text", b"", {}, 500, "failed to parse the request JSON buffer: The document is empty. at 0"),
        ("text", b"{}", compressed, 400, "Unsupported content-encoding, only 'identity' is supported."),
        ("nothing", b"{}", {}, 404, "Request for unknown model: 'nothing' is not found"),
        ("text", b'{"INPUT":"a","INPUT":"b"}', {}, 400,
         "[request id: <id_unknown>] input 'INPUT' already exists in request"),
    ]:  # fmt: skip
        refusal = await client.ask("POST", f"/v2/models/{model}/{verb}", body, headers)
        assert (refusal.status, refusal.headers["content-type"]) == (status, JSON)
        assert json.loads(refusal.body) == {"error": text}
        assert "content-length" in refusal.headers


def numbers(request: InferenceRequest) -> list[Any]:
    """One response for each element, an error for negative ones, then the flag."""
    return [
        *(
            failure(request, InvalidArgumentError(f"negative element {value}"))
            if value < 0
            else answer(request, {"OUT": np.array([value])})
            for value in request.inputs["IN"].as_numpy().tolist()
        ),
        end(request),
    ]


@pytest.mark.parametrize(
    ("elements", "status", "events"),
    [
        ([4, 5], 200, ['{"OUT":4,%s}', '{"OUT":5,%s}']),
        ([], 200, []),
        ([-1, 2], 400, ['{"error":"negative element -1"}', '{"OUT":2,%s}']),
        ([1, -2, 3], 200, ['{"OUT":1,%s}', '{"error":"negative element -2"}', '{"OUT":3,%s}']),
    ],
)
async def test_streams(client: Client, server: FakeServer, elements: list[int], status: int, events: list[str]) -> None:
    server.add(*decoupled(numbers))
    got = await client.ask("POST", "/v2/models/repeat/generate_stream", json.dumps({"IN": elements}))
    model = '"model_name":"repeat","model_version":"1"'
    assert got.status == status
    assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert got.body.decode() == "".join(f"data: {event.replace('%s', model)}\n\n" for event in events)


@pytest.mark.parametrize("elements", [[], [4, 5]])
async def test_generate_wants_one_response(client: Client, server: FakeServer, elements: list[int]) -> None:
    server.add(*decoupled(numbers))
    got = await client.ask("POST", "/v2/models/repeat/generate", json.dumps({"IN": elements}))
    assert (got.status, got.headers["content-type"]) == (200, JSON)
    assert json.loads(got.body)["error"].startswith("generate expects model to produce exactly 1 response")


async def test_events_leave_at_once(client: Client, server: FakeServer) -> None:
    server.add(*decoupled(lambda _: None))
    async with client.connect() as connection:
        body = b'{"IN":[1]}'
        head = f"POST /v2/models/repeat/generate_stream HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        await connection.send(head.encode() + body)
        await server.submitted.wait()
        [request] = server.requests
        response = answer(request, {"OUT": np.array([7])})
        response.final = False
        request.sink.send(response)
        assert (await connection.answer(head_only=True)).status == 200
        chunks = connection.chunks()
        async with asyncio.timeout(5):
            assert b'"OUT":7' in await anext(chunks)
            request.sink.send(end(request))
            assert [chunk async for chunk in chunks] == []


async def test_a_slow_reader_holds_the_model_back(client: Client, server: FakeServer) -> None:
    server.add(*decoupled(lambda _: None))
    async with client.connect() as connection:
        await connection.send(
            b'POST /v2/models/repeat/generate_stream HTTP/1.0\r\nContent-Length: 10\r\n\r\n{"IN":[1]}'
        )
        await server.submitted.wait()
        [request] = server.requests
        assert request.flow is not None
        ready: list[int] = []
        for index in range(60):
            response = answer(request, {"OUT": np.zeros(100_000, np.int8)})
            response.final = False
            request.sink.send(response)
            request.flow.when_ready(lambda index=index: ready.append(index))  # type: ignore[misc]
        assert len(ready) < 60
        request.sink.send(end(request))
        assert len(await connection.rest()) > 60 * 200_000
    assert len(ready) == 60


async def test_a_client_that_is_too_far_behind_a_stream_is_cut_off(
    client: Client, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.add(*decoupled(lambda _: None))
    async with client.connect() as connection:
        await connection.send(
            b'POST /v2/models/repeat/generate_stream HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"IN":[1]}'
        )
        await server.submitted.wait()
        [request] = server.requests
        for _ in range(200):  # 40 MB, as a thread of the model sends them
            response = answer(request, {"OUT": np.zeros(100_000, np.int8)})
            response.final = False
            request.sink.send(response)
        async with asyncio.timeout(5):
            await server.cancel_arrived.wait()
        assert server.cancelled == [request]
        request.sink.send(end(request))
    (record,) = [record for record in caplog.records if "stream-buffer-size" in record.getMessage()]
    assert "model 'repeat': a client over HTTP is cut off, more than 16777216 bytes wait for it" in record.getMessage()


async def test_one_large_response_is_no_reason_to_cut_a_client_off(client: Client, server: FakeServer) -> None:
    server.add(*decoupled(lambda asked: [answer(asked, {"OUT": np.zeros(10_000_000, np.int8)}), end(asked)]))
    got = await client.ask("POST", "/v2/models/repeat/generate_stream", json.dumps({"IN": [1]}))
    assert len(got.body) > 20_000_000


async def test_a_stream_that_is_left_is_cancelled(client: Client, server: FakeServer) -> None:
    server.add(*decoupled(lambda _: None))
    async with client.connect() as connection:
        await connection.send(
            b'POST /v2/models/repeat/generate_stream HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"IN":[1]}'
        )
        await server.submitted.wait()
    async with asyncio.timeout(5):
        await server.cancel_arrived.wait()
    [request] = server.cancelled
    request.sink.send(end(request))


async def test_the_blocking_client(client: Client) -> None:
    """tritonclient.http with compression, as its users run it."""

    def ask() -> np.ndarray[Any, Any]:
        with tritonclient.http.InferenceServerClient(client.frontend.address) as blocking:
            assert blocking.is_server_live()
            assert blocking.get_model_metadata("echo")["name"] == "echo"
            tensor = tritonclient.http.InferInput("INPUT", [4], "INT32")
            tensor.set_data_from_numpy(np.arange(4, dtype=np.int32))
            result = blocking.infer(
                "echo", [tensor], request_compression_algorithm="gzip", response_compression_algorithm="deflate"
            )
            return result.as_numpy("OUTPUT")

    assert (await asyncio.to_thread(ask)).tolist() == [0, 1, 2, 3]


async def test_responses_that_are_ready_together_leave_in_one_write(
    client: Client, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Head, events and end: each would cost a system call, and its reader a wake-up."""
    pieces: list[int] = []
    flush = AnswerWriter.flush

    def counted(writer: AnswerWriter) -> None:
        if writer._pieces:
            pieces.append(len(writer._pieces))
        flush(writer)

    monkeypatch.setattr(AnswerWriter, "flush", counted)
    server.add(*decoupled(lambda _: None))
    async with client.connect() as connection:
        await connection.send(
            b'POST /v2/models/repeat/generate_stream HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"IN":[1]}'
        )
        await server.submitted.wait()
        [request] = server.requests
        for number in range(20):
            response = answer(request, {"OUT": np.array([number], np.int32)})
            response.final = False
            request.sink.send(response)
        request.sink.send(end(request))
        got = await connection.answer()
    assert got.body.count(b"data: ") == 20
    assert pieces == [22]
