"""The life of a listener: its socket, its credentials, its limits."""

import asyncio
import math
import ssl
from typing import Final

from charonia_runtime.frontends.v2_grpc.calls import Methods
from charonia_runtime.frontends.v2_grpc.certificates import Certificates, unusable
from charonia_runtime.frontends.v2_grpc.options import Options
from charonia_runtime.frontends.v2_grpc.transports.http2.handler import Handler
from charonia_runtime.wires.addresses import bind, join
from charonia_runtime.wires.certificates import FollowedCertificate
from charonia_runtime.wires.http2.limits import Limits
from charonia_runtime.wires.http2.listener import Listener

_CONCURRENT_CALLS: Final = 2048
"""Of one connection. Clients of grpc keep what is more to themselves until others end."""
_CROWDED_SECONDS: Final = 10.0
"""How long a client may take nothing while so much waits for it that nothing more is taken from it."""
_RETIRE_SECONDS: Final = 1.0
"""While the server retires, connections are asked to go elsewhere this often."""


class Transport:
    """See `transports.Transport`."""

    def __init__(self, options: Options, methods: Methods) -> None:
        self._options = options
        self._handler = Handler(options, methods)
        self._listener = Listener(self._handler, limits_of(options))
        self._certificate: FollowedCertificate | None = None
        self._retiring: asyncio.TimerHandle | None = None

    async def start(self) -> str:
        options = self._options
        bound = bind(options.grpc_address, options.grpc_port, share_port=options.reuse_grpc_port)
        address = join(options.grpc_address, bound.getsockname()[1])
        try:
            context = _credentials(options, address) if options.uses_tls else None
            await self._listener.start(bound, context)
        except BaseException:
            bound.close()
            raise
        if context is not None:
            self._certificate = FollowedCertificate(
                context,
                options.grpc_server_cert,
                options.grpc_server_key,
                options.grpc_root_cert if options.grpc_use_ssl_mutual else None,
            )
        return address

    def retire(self) -> None:
        """
        Ask clients to connect elsewhere, those again who come back to this server.

        A new connection lives a moment first: a client whose connections all end at once would fail its calls.
        """
        for connection in list(self._listener.connections):
            connection.drain()
        self._retiring = asyncio.get_running_loop().call_later(_RETIRE_SECONDS, self.retire)

    async def stop(self, timeout_seconds: float) -> None:
        if self._retiring is not None:
            self._retiring.cancel()
            self._retiring = None
        if self._certificate is not None:
            self._certificate.stop()
        await self._listener.stop(timeout_seconds)


def limits_of(options: Options) -> Limits:
    """What one client may ask, by the flags; below zero means never, as zero does."""
    return Limits(
        concurrent_streams=_CONCURRENT_CALLS,
        stall_seconds=options.grpc_write_timeout_secs,
        crowded_stall_seconds=min(_CROWDED_SECONDS, options.grpc_write_timeout_secs or _CROWDED_SECONDS),
        pause_seconds=options.grpc_read_timeout_secs,
        idle_seconds=options.grpc_idle_timeout_secs,
        keepalive_seconds=_seconds(options.grpc_keepalive_time),
        keepalive_timeout_seconds=_seconds(options.grpc_keepalive_timeout),
        keepalive_without_calls=options.grpc_keepalive_permit_without_calls,
        pings_without_data=max(options.grpc_http2_max_pings_without_data, 0),
        ping_interval_seconds=_seconds(options.grpc_http2_min_recv_ping_interval_without_data),
        ping_strikes=max(options.grpc_http2_max_ping_strikes, 0),
        connection_age_seconds=_seconds(options.grpc_max_connection_age),
        connection_age_grace_seconds=_seconds(options.grpc_max_connection_age_grace) or math.inf,
    )


def _seconds(milliseconds: int) -> float:
    return max(milliseconds, 0) / 1000


def _credentials(options: Options, address: str) -> ssl.SSLContext:
    """Raises InvalidArgumentError when the files cannot be used."""
    certificates = Certificates.read(options)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.grpc_server_cert, options.grpc_server_key)
        if certificates.roots is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=certificates.roots.decode("latin-1"))
    except (OSError, ValueError) as error:
        raise unusable(address) from error
    return context
