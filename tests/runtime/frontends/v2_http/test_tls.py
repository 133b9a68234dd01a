"""HTTPS: the same answers over TLS, and only for clients with a certificate where that is asked for."""

import asyncio
import ssl
from pathlib import Path

import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.frontends.v2_http import Frontend, Options
from tests.support.certificates import Certificate, make_certificate
from tests.support.fake_server import FakeServer, echo_config
from tests.support.http_client import RawClient, http_frontend

LARGE = 400_000


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer()
    server.add(echo_config("echo", DataType.UINT8))
    return server


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "client")


def trusting(own: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=own.certificate)


def files(own: Certificate) -> dict[str, str]:
    return {"http_server_cert": str(own.certificate), "http_server_key": str(own.key)}


async def test_a_large_tensor_there_and_back(server: FakeServer, own: Certificate) -> None:
    head = b'{"inputs":[{"name":"INPUT","datatype":"UINT8","shape":[%d],"parameters":{"binary_data_size":%d}}],' % (
        LARGE,
        LARGE,
    )
    head += b'"parameters":{"binary_data_output":true}}'
    body = head + bytes(range(250)) * (LARGE // 250)
    async with http_frontend(server, http_use_ssl=True, **files(own)) as client:
        reader, writer = await asyncio.open_connection(*client.place, ssl=trusting(own))
        raw = RawClient(reader, writer)
        for _ in range(3):
            await raw.send(
                b"POST /v2/models/echo/infer HTTP/1.1\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n"
                % (len(head), len(body))
            )
            await raw.send(body)
            answer = await raw.answer()
            assert answer.status == 200
            assert answer.body.endswith(body[len(head) :])
        writer.close()
        await writer.wait_closed()


async def test_plain_clients_get_nothing(server: FakeServer, own: Certificate) -> None:
    async with http_frontend(server, http_use_ssl=True, **files(own)) as client, client.connect() as raw:
        await raw.send(b"GET /v2/health/live HTTP/1.1\r\n\r\n")
        assert await raw.rest() == b""


async def test_clients_without_a_certificate_are_refused(
    server: FakeServer, own: Certificate, other: Certificate
) -> None:
    options = files(own) | {"http_root_cert": str(other.certificate)}
    async with http_frontend(server, http_use_ssl_mutual=True, **options) as client:
        for shown, expected in ((None, b""), (other, b"HTTP/1.1 200 OK")):
            context = trusting(own)
            if shown is not None:
                context.load_cert_chain(shown.certificate, shown.key)
            reader, writer = await asyncio.open_connection(*client.place, ssl=context)
            writer.write(b"GET /v2/health/live HTTP/1.1\r\nConnection: close\r\n\r\n")
            try:
                async with asyncio.timeout(5):
                    answer = await reader.read()
            except ssl.SSLError:
                answer = b""
            assert answer[: len(b"HTTP/1.1 200 OK")] == expected
            writer.transport.abort()


@pytest.mark.parametrize(
    ("fields", "flag"),
    [
        ({"http_use_ssl": True}, "http-server-cert"),
        ({"http_use_ssl": True, "http_server_cert": "a"}, "http-server-key"),
        ({"http_use_ssl_mutual": True, "http_server_cert": "a", "http_server_key": "b"}, "http-root-cert"),
    ],
)
def test_a_file_that_is_not_named(fields: dict[str, object], flag: str) -> None:
    with pytest.raises(OptionError) as refused:
        Options(**fields)  # type: ignore[arg-type]
    assert f"--{flag} must be specified" in str(refused.value)


async def test_a_file_that_is_no_certificate(server: FakeServer, own: Certificate, tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    options = Options(
        http_address="127.0.0.1", http_port=0, http_use_ssl=True,
        http_server_cert=str(tmp_path / "bad.pem"), http_server_key=str(own.key),
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="certificates for HTTPS cannot be used"):
        await Frontend(options, server).start()
