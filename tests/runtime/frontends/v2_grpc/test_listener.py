"""The gRPC listener: its flags, its socket, TLS, compression, and how it stops."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from charonia_runtime.core.errors import InferenceError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.frontends.v2_grpc import Frontend, Options
from charonia_runtime.frontends.v2_grpc.options import TRANSPORTS
from charonia_runtime.frontends.v2_grpc.transports import transport_names
from tests.support.certificates import make_certificate
from tests.support.fake_server import FakeServer, answer, echo_config
from tests.support.grpc_calls import SERVICE, GrpcClient, message

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

SHUTTING_DOWN = "GRPC server is shutting down and has stopped accepting new requests."


async def serving(options: Options, server: FakeServer, use: Callable[[Frontend], Awaitable[Any]]) -> Any:
    """What `use` gives with a started frontend."""
    frontend = Frontend(options, server)
    await frontend.start()
    try:
        return await use(frontend)
    finally:
        await frontend.stop(0)


# --- flags ---


async def test_the_defaults_are_tritons() -> None:
    options = Options()
    assert (options.enabled, options.grpc_address, options.grpc_port) == (True, "0.0.0.0", 8001)
    assert Frontend(options, FakeServer()).address == "0.0.0.0:8001"


@pytest.mark.parametrize(
    ("fields", "flag", "text"),
    [
        (
            {"grpc_infer_response_compression_level": "x"},
            "grpc-infer-response-compression-level",
            "invalid argument for --grpc_infer_response_compression_level",
        ),
        (
            {"grpc_transport": "carrier-pigeon"},
            "grpc-transport",
            "--grpc-transport must be one of http2, grpcio, got 'carrier-pigeon'",
        ),
        (
            {"grpc_max_response_pool_size": -1},
            "grpc-max-response-pool-size",
            "Error: --grpc-max-response-pool-size must be greater than 0.",
        ),
        (
            {"grpc_restricted_protocol": ("bogus:k=v",)},
            "grpc-restricted-protocol",
            "unknown restricted protocol 'bogus' ",
        ),
        ({"grpc_port": 65536}, "grpc-port", "--grpc-port must be between 0 and 65535, got 65536"),
        ({"grpc_port": -1}, "grpc-port", "--grpc-port must be between 0 and 65535, got -1"),
        (
            {"grpc_header_forward_pattern": "("},
            "grpc-header-forward-pattern",
            (
                "invalid regular expression for --grpc-header-forward-pattern: missing ), unterminated subpattern at "
                "position 0. Got ("
            ),
        ),
    ],
)
async def test_bad_flags(fields: dict[str, Any], flag: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options(**fields)
    assert (caught.value.flag, caught.value.message) == (flag, text)


async def test_every_transport_can_be_chosen() -> None:
    assert sorted(TRANSPORTS) == transport_names()


# --- the socket ---


async def test_a_busy_port(local: Options) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnavailableError) as caught:
            await Frontend(replace(local, grpc_port=port), FakeServer()).start()
    assert caught.value.message == f"Socket '127.0.0.1:{port}' already in use "


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"grpc_address": "203.0.113.1"}, "cannot listen on '203.0.113.1:0': Cannot assign requested address"),
        ({"grpc_address": "no such host"}, "cannot listen on 'no such host:0': Name or service not known"),
    ],
)
async def test_addresses_that_cannot_be_had(fields: dict[str, Any], text: str, local: Options) -> None:
    with pytest.raises(InferenceError) as caught:
        await Frontend(replace(local, **fields), FakeServer()).start()
    assert caught.value.message == text


async def test_a_shared_port(local: Options) -> None:
    async def use(first: Frontend) -> None:
        port = int(first.address.rpartition(":")[2])
        second = Frontend(replace(local, grpc_port=port, reuse_grpc_port=True), FakeServer())
        await second.start()
        assert second.address == first.address
        await second.stop(0)

    await serving(replace(local, reuse_grpc_port=True), FakeServer(), use)


async def test_an_ipv6_address(local: Options) -> None:
    async def use(frontend: Frontend) -> None:
        assert frontend.address.startswith("[::1]:")
        async with GrpcClient(frontend.address) as client:
            assert await client.call("ServerLive") == {"live": True}

    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    await serving(replace(local, grpc_address="::1"), FakeServer(), use)


async def test_the_keepalive_settings_are_logged_for_the_curious(
    caplog: pytest.LogCaptureFixture, local: Options
) -> None:
    async def use(_: Frontend) -> None: ...

    with caplog.at_level(logging.DEBUG):
        await serving(replace(local, grpc_max_connection_age=5000), FakeServer(), use)
    assert "Started GRPCInferenceService at 127.0.0.1:" in caplog.text
    assert "| GRPC KeepAlive Option                        | Value   |\n+---" in caplog.text
    assert "| keepalive_permit_without_calls               | 0       |" in caplog.text
    assert "| max_connection_age_ms                        | 5000    |" in caplog.text


# --- TLS ---


async def secure_call(address: str, roots: bytes, **client: bytes) -> bytes:
    credentials = grpc.ssl_channel_credentials(roots, **client)
    port = address.rpartition(":")[2]
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
        answered: bytes = await channel.unary_unary(f"{SERVICE}/ServerLive")(b"", timeout=5)
        return answered


async def test_tls(tmp_path: Path, local: Options) -> None:
    mine, other = make_certificate(tmp_path, "server"), make_certificate(tmp_path, "other")
    options = replace(
        local, grpc_use_ssl=True, grpc_server_cert=str(mine.certificate), grpc_server_key=str(mine.key)
    )  # fmt: skip

    async def use(frontend: Frontend) -> None:
        assert await secure_call(frontend.address, mine.certificate.read_bytes()) == b"\x08\x01"
        with pytest.raises(grpc.aio.AioRpcError):
            await secure_call(frontend.address, other.certificate.read_bytes())
        async with GrpcClient(frontend.address) as client:
            with pytest.raises(grpc.aio.AioRpcError):
                await client.call("ServerLive")

    await serving(options, FakeServer(), use)


async def test_mutual_tls(tmp_path: Path, local: Options) -> None:
    mine, user, stranger = (make_certificate(tmp_path, name) for name in ("server", "user", "stranger"))
    options = replace(
        local, grpc_use_ssl_mutual=True, grpc_server_cert=str(mine.certificate), grpc_server_key=str(mine.key),
        grpc_root_cert=str(user.certificate),
    )  # fmt: skip

    def client_of(certificate: Any) -> dict[str, bytes]:
        return {"private_key": certificate.key.read_bytes(), "certificate_chain": certificate.certificate.read_bytes()}

    async def use(frontend: Frontend) -> None:
        assert await secure_call(frontend.address, mine.certificate.read_bytes(), **client_of(user)) == b"\x08\x01"
        for certificate in ({}, client_of(stranger)):
            with pytest.raises(grpc.aio.AioRpcError):
                await secure_call(frontend.address, mine.certificate.read_bytes(), **certificate)

    await serving(options, FakeServer(), use)


async def test_tls_names_the_file_that_is_missing(tmp_path: Path, local: Options) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_bytes(b"")
    for fields, text in (
        ({}, "--grpc-server-key must name a PEM file when gRPC is served over TLS"),
        (
            {"grpc_server_key": "/nowhere.pem"},
            "cannot read --grpc-server-key '/nowhere.pem': No such file or directory",
        ),
        ({"grpc_server_key": str(empty)}, f"--grpc-server-key '{empty}' holds no PEM block"),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            await Frontend(replace(local, grpc_use_ssl=True, **fields), FakeServer()).start()
        assert caught.value.message == text


async def test_tls_with_a_key_that_is_none(tmp_path: Path, local: Options) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    options = replace(local, grpc_use_ssl=True, grpc_server_cert=str(broken), grpc_server_key=str(broken))
    with pytest.raises(InvalidArgumentError, match="grpc-server-cert"):
        await Frontend(options, FakeServer()).start()


# --- compression ---


class CountedBytes:
    """A relay that counts what the server sends."""

    def __init__(self) -> None:
        self.received = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, *, count: bool) -> None:
            try:
                while data := await source.read(65536):
                    self.received += len(data) if count else 0
                    target.write(data)
                    await target.drain()
            finally:
                target.close()

        await asyncio.gather(
            pump(reader, upstream_writer, count=False),
            pump(upstream_reader, writer, count=True),
            return_exceptions=True,
        )


async def bytes_of_answers(level: str, channel_options: list[tuple[str, int]], local: Options) -> int:
    """How many bytes the server sends for one unary and one streamed answer with 100,000 zeros each."""
    server = FakeServer()
    server.add(echo_config(), lambda request: [answer(request, {"OUTPUT": np.zeros(100_000, np.uint8)})])
    counted = CountedBytes()

    async def use(frontend: Frontend) -> None:
        port = int(frontend.address.rpartition(":")[2])
        relay = await asyncio.start_server(lambda *ends: counted(*ends, port), "127.0.0.1", 0)
        address = f"127.0.0.1:{relay.sockets[0].getsockname()[1]}"
        async with relay, grpc.aio.insecure_channel(address, options=channel_options) as channel:
            request = message({"model_name": "echo"})
            answered = await channel.unary_unary(f"{SERVICE}/ModelInfer")(request, timeout=10)
            assert len(answered) > 100_000
            assert [
                len(data) > 100_000 async for data in channel.stream_stream(f"{SERVICE}/ModelStreamInfer")([request])
            ] == [True]

    await serving(replace(local, grpc_infer_response_compression_level=level), server, use)
    return counted.received


@pytest.mark.parametrize("level", ["low", "medium", "high"])
async def test_answers_are_compressed_on_request(level: str, local: Options) -> None:
    assert await bytes_of_answers(level, [], local) < 10_000


async def test_answers_are_not_compressed_by_default(local: Options) -> None:
    assert await bytes_of_answers("none", [], local) > 200_000


async def test_clients_without_compression_get_plain_answers(local: Options) -> None:
    identity_only = [("grpc.compression_enabled_algorithms_bitset", 1)]
    assert await bytes_of_answers("high", identity_only, local) > 200_000


# --- stopping ---


class OpenModel:
    """A model whose request stays open until the test answers it."""

    def __init__(self) -> None:
        self.request: asyncio.Future[InferenceRequest] = asyncio.get_running_loop().create_future()

    def __call__(self, request: InferenceRequest) -> None:
        self.request.set_result(request)


async def test_stopping_before_starting_is_nothing(local: Options) -> None:
    await Frontend(local, FakeServer()).stop(1)


async def test_requests_in_flight_are_answered_and_new_ones_refused(local: Options) -> None:
    server, unary, streamed = FakeServer(), OpenModel(), OpenModel()
    server.add(echo_config("unary"), unary)
    server.add(echo_config("streamed"), streamed)
    frontend = Frontend(local, server)
    await frontend.start()
    async with GrpcClient(frontend.address) as client:
        call = asyncio.create_task(client.raw("ModelInfer", message({"model_name": "unary"})))
        stream, idle = client.stream(), client.stream()
        await stream.write(message({"model_name": "streamed"}))
        await idle.wait_for_connection()
        asked = [await unary.request, await streamed.request]
        stopping = asyncio.create_task(frontend.stop(30))
        await asyncio.sleep(0)
        for refused in (client.raw("ModelInfer", message({"model_name": "unary"})), client.streamed([])):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await refused
            assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNAVAILABLE, SHUTTING_DOWN)
        await stream.write(message({"model_name": "streamed"}))
        assert await client.call("ServerLive") == {"live": True}
        assert not stopping.done()
        for request in asked:
            server.answer(request, [answer(request, {})])
        assert await call
        assert await stream.read() is not grpc.aio.EOF
        assert SHUTTING_DOWN.encode() in await stream.read()
        await asyncio.wait_for(stopping, 5)
        assert await idle.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(grpc.aio.AioRpcError):
            await client.call("ServerLive")


async def test_what_is_not_answered_in_time_is_cancelled(caplog: pytest.LogCaptureFixture, local: Options) -> None:
    server, model = FakeServer(), OpenModel()
    server.add(echo_config("slow"), model)
    frontend = Frontend(local, server)
    await frontend.start()
    async with GrpcClient(frontend.address) as client:
        call = asyncio.create_task(client.raw("ModelInfer", message({"model_name": "slow"})))
        request = await model.request
        with caplog.at_level(logging.INFO):
            await asyncio.wait_for(frontend.stop(0.2), 5)
        with pytest.raises(grpc.aio.AioRpcError):
            await call
    assert server.cancelled == [request]
    assert "Found 1 GRPC service connections and inference handlers" in caplog.text
