"""Certificates that are renewed while the server runs."""

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest

from charonia_runtime.frontends import v2_grpc, v2_http
from charonia_runtime.wires import certificates
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
    names = {"cert": str(own.certificate), "key": str(own.key)}
    flags = {f"{request.param}_server_{name}": path for name, path in names.items()}
    flags |= {f"{request.param}_address": "127.0.0.1", f"{request.param}_port": 0, f"{request.param}_use_ssl": True}
    module = v2_http if request.param == "http" else v2_grpc
    made = module.Frontend(module.Options(**flags), FakeServer())
    await made.start()
    yield made
    await made.stop(0)


async def shown(frontend):
    """The certificate that a new connection gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
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
