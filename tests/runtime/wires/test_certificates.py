"""Certificates that are renewed while the server runs."""

import asyncio
import contextlib
import shutil
import ssl
from pathlib import Path

import pytest

from charonia_runtime.frontends import v2_grpc, v2_http
from charonia_runtime.wires import certificates
from charonia_runtime.wires.certificates import refresh_certificates
from tests.support.certificates import make_certificate
from tests.support.fake_server import FakeServer


@pytest.fixture
def own(tmp_path):
    return make_certificate(tmp_path, "server")


@pytest.fixture
def renewed(tmp_path):
    (tmp_path / "new").mkdir()
    return make_certificate(tmp_path / "new", "renewed")


@pytest.fixture(params=["http", "grpc"])
async def frontend(request, own, monkeypatch):
    monkeypatch.setattr(certificates, "_LOOK_SECONDS", 0.01)
    async with serving(request.param, own) as made:
        yield made


@contextlib.asynccontextmanager
async def serving(protocol, own, **more):
    """A frontend with the files of `own`, and with the flags `<protocol>_<name>` in `more`."""
    names = {"cert": str(own.certificate), "key": str(own.key)}
    flags = {f"{protocol}_server_{name}": path for name, path in names.items()}
    flags |= {f"{protocol}_address": "127.0.0.1", f"{protocol}_port": 0, f"{protocol}_use_ssl": True}
    flags |= {f"{protocol}_{name}": value for name, value in more.items()}
    module = v2_http if protocol == "http" else v2_grpc
    made = module.Frontend(module.Options(**flags), FakeServer())
    await made.start()
    try:
        yield made
    finally:
        await made.stop(0)


async def shown(frontend, client=None):
    """The certificate that a new connection gets, which shows that of `client`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # whose handshake ends with what the server says of the client
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    host, _, port = frontend.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


def encoded(certificate):
    return ssl.PEM_cert_to_DER_cert(Path(certificate.certificate).read_text())


async def test_new_connections_get_the_renewed_certificate(frontend, own, renewed):
    assert await shown(frontend) == encoded(own)
    shutil.copy(renewed.certificate, own.certificate)  # for a moment without its key
    await asyncio.sleep(0.05)
    assert await shown(frontend) != b""
    shutil.copy(renewed.key, own.key)
    async with asyncio.timeout(20):
        while await shown(frontend) != encoded(renewed):
            pass


async def test_files_that_break_leave_the_last_certificate(frontend, own, renewed, caplog):
    before = encoded(own)
    own.certificate.write_text("no certificate")
    async with asyncio.timeout(20):
        while "cannot be used, the last one stays" not in caplog.text:
            assert await shown(frontend) == before
    assert await shown(frontend) == before


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_a_refresh_reads_certificates_at_once(protocol, own, renewed, monkeypatch):
    monkeypatch.setattr(certificates, "_LOOK_SECONDS", 1000)
    async with serving(protocol, own) as frontend:
        shutil.copy(renewed.certificate, own.certificate)
        shutil.copy(renewed.key, own.key)
        assert await shown(frontend) != encoded(renewed)
        refresh_certificates()
        assert await shown(frontend) == encoded(renewed)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_roots_of_clients_are_added(protocol, own, renewed, tmp_path, monkeypatch):
    monkeypatch.setattr(certificates, "_LOOK_SECONDS", 1000)
    roots = tmp_path / "roots.pem"
    shutil.copy(own.certificate, roots)
    async with serving(protocol, own, use_ssl_mutual=True, root_cert=str(roots)) as frontend:
        assert await shown(frontend, own) == encoded(own)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shown(frontend, renewed)
        roots.write_bytes(own.certificate.read_bytes() + renewed.certificate.read_bytes())
        refresh_certificates()
        assert await shown(frontend, renewed) == encoded(own)
