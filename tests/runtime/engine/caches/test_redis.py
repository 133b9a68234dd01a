import asyncio
import logging
from contextlib import contextmanager

import pytest

from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.engine.caches.redis import Cache
from tests.support.certificates import make_certificate
from tests.support.redis_server import redis_server


def a_cache(port: int, **settings: str) -> Cache:
    return Cache({"host": "127.0.0.1", "port": str(port), "connect_timeout": "5000", **settings})


async def inserted(cache: Cache, key: bytes, *parts: bytes) -> None:
    cache.insert(key, parts)
    await asyncio.gather(*cache._insertions)


async def test_gives_back_what_another_server_inserted():
    with redis_server() as port:
        one, other = a_cache(port), a_cache(port)
        await one.start()
        await inserted(one, b"k\x00ey", b"\xff\x00", memoryview(b"rest"))
        await inserted(one, b"k\x00ey", b"second")

        assert await other.look_up(b"k\x00ey") == b"\xff\x00rest"
        assert await other.look_up(b"none") is None
        await one.close()
        await other.close()


async def test_uses_user_password_and_database():
    with redis_server("--requirepass", "secret") as port:
        cache = a_cache(port, user="default", password="secret", db="3")
        await cache.start()
        await inserted(cache, b"key", b"entry")
        assert await cache.look_up(b"key") == b"entry"
        await cache.close()

        with pytest.raises(UnavailableError, match=f"Failed to initialize RedisCache: no answer from 127.0.0.1:{port}"):
            await a_cache(port).start()


@pytest.fixture
def certificates(tmp_path):
    """Those of a server and of its clients."""
    return make_certificate(tmp_path, "server"), make_certificate(tmp_path, "client")


@contextmanager
def tls_server(certificates):
    """A server that speaks TLS only, with clients that have the certificate."""
    server, client = certificates
    arguments = [
        "--tls-cert-file", server.certificate, "--tls-key-file", server.key, "--tls-ca-cert-file", client.certificate,
    ]  # fmt: skip
    with redis_server(*map(str, arguments), tls=True) as port:
        yield port


def secured(certificates, **changes):
    server, client = certificates
    files = {"cacert": server.certificate, "cert": client.certificate, "key": client.key}
    return {"tls_enabled": "true"} | {name: str(path) for name, path in files.items()} | changes


@pytest.mark.parametrize("changes", [{}, {"host": "localhost"}, {"sni": "localhost"}])
async def test_speaks_tls(certificates, changes):
    with tls_server(certificates) as port:
        cache = a_cache(port, **secured(certificates, **changes))
        await cache.start()
        await inserted(cache, b"key", b"entry")
        assert await cache.look_up(b"key") == b"entry"
        await cache.close()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sni": "elsewhere.test"}, "Hostname mismatch"),
        ({"cacert": None}, "self-signed certificate"),
        ({"cert": None, "key": None}, ""),
        ({"tls_enabled": "false"}, ""),
    ],
)
async def test_neither_side_trusts_a_stranger(certificates, changes, reason):
    settings = {name: text for name, text in secured(certificates, **changes).items() if text is not None}
    message = f"Failed to initialize RedisCache: no answer from .*{reason}"
    with tls_server(certificates) as port, pytest.raises(UnavailableError, match=message):
        await a_cache(port, **settings).start()


async def test_a_server_that_goes_away_is_an_empty_cache_and_logged_once(caplog: pytest.LogCaptureFixture):
    with redis_server() as port:
        cache = a_cache(port, socket_timeout="200", connect_timeout="200")
        await cache.start()
        await inserted(cache, b"key", b"entry")

    assert await cache.look_up(b"key") is None
    assert await cache.look_up(b"key") is None
    await inserted(cache, b"other", b"entry")
    await cache.close()

    assert [record.levelno for record in caplog.records if "does not answer" in record.message] == [logging.ERROR]


async def test_does_not_start_where_nobody_listens():
    with redis_server() as port:
        pass
    with pytest.raises(UnavailableError, match="Failed to initialize RedisCache"):
        await a_cache(port).start()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"port": "1"}, "must specify a host"),
        ({"host": "h"}, "must specify a port"),
        ({"host": "h", "port": "x"}, "'port' must be a number, got 'x'"),
        ({"host": "h", "port": "1", "hots": "h"}, "unknown setting 'hots', expected one of cacert, cert"),
        (
            {"host": "h", "port": "1", "tls_enabled": "true", "cacert": "/none.pem"},
            "Failed to initialize RedisCache: cannot read '/none.pem', the file of 'cacert'",
        ),
    ],
)
async def test_refuses_wrong_settings(settings: dict[str, str], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        Cache(settings)
