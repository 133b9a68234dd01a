"""The cache that several servers share: a Redis server, through the package `redis` (extra `redis`)."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from charonia_runtime.core.cache import CacheUse
from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.installation import install_command

logger = logging.getLogger(__name__)

_PREFIX: Final = b"charonia:"
"""In front of every key, so that what else lies in the database is left alone."""
_SETTINGS: Final = frozenset({
    "host", "port", "user", "password", "db", "connect_timeout", "socket_timeout", "pool_size", "wait_timeout",
    "tls_enabled", "cert", "key", "cacert", "sni",
})  # fmt: skip
_MOST_INSERTIONS: Final = 1000
"""Insertions under way at the same time; more are dropped, so that a slow Redis server does not fill our memory."""


class Cache:
    """
    See `core.cache.ResponseCache`. Settings are those of Triton's Redis cache, timeouts milliseconds.

    A Redis server that fails is a cache that has nothing: requests are executed. The log says so once, and once more
    when it is back.
    """

    use: CacheUse | None = None

    def __init__(self, settings: dict[str, str]) -> None:
        """Raises InvalidArgumentError, naming the setting, for what is wrong or missing."""
        try:
            from redis.asyncio import BlockingConnectionPool, Connection, Redis
        except ImportError as error:
            raise InvalidArgumentError(
                f"the cache 'redis' needs the Python package 'redis': {install_command('redis')}"
            ) from error
        given = _checked(settings)
        security = _connection_security(given)
        pool = BlockingConnectionPool(
            connection_class=_secure_connection(given.get("sni")) if security else Connection,
            host=given["host"],
            port=_number(given, "port", 0),
            username=given.get("user"),
            password=given.get("password"),
            db=_number(given, "db", 0),
            max_connections=_number(given, "pool_size", 16),
            timeout=_seconds(given, "wait_timeout", 1000),
            socket_connect_timeout=_seconds(given, "connect_timeout", 1000),
            socket_timeout=_seconds(given, "socket_timeout", 1000),
            **security,
        )
        self._client = Redis(connection_pool=pool)
        self._address = f"{given['host']}:{given['port']}"
        self._broken = False
        self._insertions: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        try:
            await self._client.ping()
        except Exception as error:
            await self.close()
            raise UnavailableError(
                f"Failed to initialize RedisCache: no answer from {self._address}: {error}"
            ) from error

    def look_up(self, key: bytes) -> Awaitable[bytes | None]:
        return self._tried(lambda: self._client.get(_PREFIX + key))

    def insert(self, key: bytes, parts: Sequence[bytes | memoryview]) -> None:
        if self._broken or len(self._insertions) >= _MOST_INSERTIONS:
            return
        entry = b"".join(parts)
        task = asyncio.create_task(self._insert(key, entry))
        self._insertions.add(task)
        task.add_done_callback(self._insertions.discard)

    async def close(self) -> None:
        for task in self._insertions:
            task.cancel()
        await asyncio.gather(*self._insertions, return_exceptions=True)
        await self._client.aclose(close_connection_pool=True)

    async def _insert(self, key: bytes, entry: bytes) -> None:
        await self._tried(lambda: self._client.set(_PREFIX + key, entry, nx=True))

    async def _tried(self, command: Callable[[], Awaitable[Any]]) -> Any:
        """What `command` gives; None where the server does not answer."""
        try:
            result = await command()
        except Exception as error:  # noqa: BLE001 - a cache must not fail a request, whatever the library raises
            if not self._broken:
                logger.error("the response cache at %s does not answer: %s", self._address, error)  # noqa: TRY400
            self._broken = True
            return None
        if self._broken:
            logger.info("the response cache at %s answers again", self._address)
        self._broken = False
        return result


def _checked(settings: dict[str, str]) -> dict[str, str]:
    """The settings, when they are known ones and say where the server is."""
    unknown = sorted(settings.keys() - _SETTINGS)
    if unknown:
        raise InvalidArgumentError(
            f"Failed to initialize RedisCache: unknown setting '{unknown[0]}', expected one of "
            f"{', '.join(sorted(_SETTINGS))}"
        )
    for name in ("host", "port"):
        if not settings.get(name):
            raise InvalidArgumentError(f"Failed to initialize RedisCache, must specify a {name} of the Redis server")
    return settings


def _connection_security(settings: dict[str, str]) -> dict[str, Any]:
    """What the connection's TLS needs; nothing where it is off."""
    if settings.get("tls_enabled", "false").lower() not in {"true", "1", "yes"}:
        return {}
    names = {"cert": "ssl_certfile", "key": "ssl_keyfile", "cacert": "ssl_ca_certs"}
    files = {theirs: settings[ours] for ours, theirs in names.items() if ours in settings}
    for ours in names.keys() & settings.keys():
        if not os.access(settings[ours], os.R_OK):
            raise InvalidArgumentError(
                f"Failed to initialize RedisCache: cannot read '{settings[ours]}', the file of '{ours}'"
            )
    return {"ssl_cert_reqs": "required", "ssl_check_hostname": True, **files}


def _secure_connection(name: str | None) -> type[Any]:
    """Connections by TLS to a server that has the certificate of this name; None for that of its address."""
    from redis.asyncio import SSLConnection

    class NamedConnection(SSLConnection):
        @override
        def _connection_arguments(self) -> Mapping[str, Any]:
            return {**super()._connection_arguments(), "server_hostname": name}

    return SSLConnection if name is None else NamedConnection


def _seconds(settings: dict[str, str], name: str, default_ms: int) -> float:
    return _number(settings, name, default_ms) / 1000


def _number(settings: dict[str, str], name: str, default: int) -> int:
    text = settings.get(name, str(default))
    if not (text.isascii() and text.isdecimal()):
        raise InvalidArgumentError(f"Failed to initialize RedisCache: '{name}' must be a number, got '{text}'")
    return int(text)
