"""The server object of grpc.aio: its settings, its credentials, its socket."""

from typing import TypeAlias

import grpc
import grpc.aio

from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.frontends.v2_grpc.certificates import Certificates, unusable
from charonia_runtime.frontends.v2_grpc.options import COMPRESSION_LEVELS, Options
from charonia_runtime.protocols.v2_proto import MAX_MESSAGE_BYTES
from charonia_runtime.wires.addresses import bind, join

Listener: TypeAlias = grpc.aio.Server


def open_server(options: Options, handler: grpc.GenericRpcHandler) -> tuple[Listener, str]:
    """
    A server that is bound and not started yet, and the address it has.

    Raises UnavailableError when the address cannot be had, InvalidArgumentError when TLS lacks a usable file.
    """
    address = join(options.grpc_address, options.grpc_port)
    # grpc itself prints a page to stderr when the address is taken, and hides the reason.
    bind(options.grpc_address, options.grpc_port, share_port=options.reuse_grpc_port).close()
    server = grpc.aio.server(options=_settings(options))
    server.add_generic_rpc_handlers((handler,))
    certificates = Certificates.read(options) if options.uses_tls else None
    try:
        if certificates is not None:
            port = server.add_secure_port(address, _credentials(certificates))
        else:
            port = server.add_insecure_port(address)
    except RuntimeError as error:
        if options.uses_tls:
            raise unusable(address) from error
        raise UnavailableError(f"Socket '{address}' already in use ") from error
    return server, join(options.grpc_address, port)


def _credentials(certificates: Certificates) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(certificates.key, certificates.chain)],
        root_certificates=certificates.roots,
        require_client_auth=certificates.roots is not None,
    )


_PENDING_CALLS_AT_MOST = 100_000
"""Calls that may wait to be looked at. With grpc's own limits a burst of more than a thousand loses some of them."""


def _settings(options: Options) -> list[tuple[str, int]]:
    settings = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.server.max_pending_requests", _PENDING_CALLS_AT_MOST),
        ("grpc.server.max_pending_requests_hard_limit", _PENDING_CALLS_AT_MOST),
        ("grpc.so_reuseport", int(options.reuse_grpc_port)),
        ("grpc.keepalive_time_ms", options.grpc_keepalive_time),
        ("grpc.keepalive_timeout_ms", options.grpc_keepalive_timeout),
        ("grpc.keepalive_permit_without_calls", int(options.grpc_keepalive_permit_without_calls)),
        ("grpc.http2.max_pings_without_data", options.grpc_http2_max_pings_without_data),
        ("grpc.http2.min_ping_interval_without_data_ms", options.grpc_http2_min_recv_ping_interval_without_data),
        ("grpc.http2.max_ping_strikes", options.grpc_http2_max_ping_strikes),
        ("grpc.default_compression_level", COMPRESSION_LEVELS.index(options.grpc_infer_response_compression_level)),
    ]
    if options.grpc_max_connection_age:
        settings.append(("grpc.max_connection_age_ms", options.grpc_max_connection_age))
    if options.grpc_max_connection_age_grace:
        settings.append(("grpc.max_connection_age_grace_ms", options.grpc_max_connection_age_grace))
    return settings
