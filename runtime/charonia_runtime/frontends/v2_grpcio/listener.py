"""The server object of grpc.aio: its settings, its credentials, its socket."""

import errno
import logging
import socket
from pathlib import Path
from typing import TypeAlias

import grpc
import grpc.aio

from charonia_runtime.core.errors import InvalidArgumentError, UnavailableError
from charonia_runtime.frontends.v2_grpcio.options import COMPRESSION_LEVELS, Options
from charonia_runtime.protocols.v2_proto import MAX_MESSAGE_BYTES

logger = logging.getLogger(__name__)

Listener: TypeAlias = grpc.aio.Server


def open_server(options: Options, router: grpc.GenericRpcHandler) -> tuple[Listener, str]:
    """
    A server that is bound and not started yet, and the address it has.

    Raises UnavailableError when the address cannot be had, InvalidArgumentError when TLS lacks a usable file.
    """
    host = f"[{options.grpc_address}]" if ":" in options.grpc_address else options.grpc_address
    address = f"{host}:{options.grpc_port}"
    _check_free(options, address)
    server = grpc.aio.server(options=_settings(options))
    server.add_generic_rpc_handlers((router,))
    try:
        if options.uses_tls:
            port = server.add_secure_port(address, _credentials(options))
        else:
            port = server.add_insecure_port(address)
    except RuntimeError as error:
        if options.uses_tls:
            raise InvalidArgumentError(
                f"cannot serve TLS on '{address}' with the files of --grpc-server-cert, --grpc-server-key and "
                "--grpc-root-cert"
            ) from error
        raise UnavailableError(f"Socket '{address}' already in use ") from error
    _log_keepalive(options)
    return server, f"{host}:{port}"


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


def _check_free(options: Options, address: str) -> None:
    """Bind the address for a moment: grpc itself prints a page to stderr when it is taken, and hides the reason."""
    try:
        found = socket.getaddrinfo(
            options.grpc_address, options.grpc_port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, place = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if options.reuse_grpc_port:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            probe.bind(place)
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UnavailableError(f"Socket '{address}' already in use ") from error
        raise UnavailableError(f"cannot listen on '{address}': {error.strerror or error}") from error


def _credentials(options: Options) -> grpc.ServerCredentials:
    mutual = options.grpc_use_ssl_mutual
    return grpc.ssl_server_credentials(
        [(_read(options.grpc_server_key, "grpc-server-key"), _read(options.grpc_server_cert, "grpc-server-cert"))],
        root_certificates=_read(options.grpc_root_cert, "grpc-root-cert") if mutual else None,
        require_client_auth=mutual,
    )


def _read(path: str, flag: str) -> bytes:
    if not path:
        raise InvalidArgumentError(f"--{flag} must name a PEM file when gRPC is served over TLS")
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(f"cannot read --{flag} '{path}': {error.strerror}") from error
    if b"-----BEGIN " not in content:
        raise InvalidArgumentError(f"--{flag} '{path}' holds no PEM block")
    return content


def _log_keepalive(options: Options) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    rows = [
        ("keepalive_time_ms", options.grpc_keepalive_time),
        ("keepalive_timeout_ms", options.grpc_keepalive_timeout),
        ("keepalive_permit_without_calls", int(options.grpc_keepalive_permit_without_calls)),
        ("http2_max_pings_without_data", options.grpc_http2_max_pings_without_data),
        ("http2_min_recv_ping_interval_without_data_ms", options.grpc_http2_min_recv_ping_interval_without_data),
        ("http2_max_ping_strikes", options.grpc_http2_max_ping_strikes),
    ]
    if options.grpc_max_connection_age:
        rows.append(("max_connection_age_ms", options.grpc_max_connection_age))
    if options.grpc_max_connection_age_grace:
        rows.append(("max_connection_age_grace_ms", options.grpc_max_connection_age_grace))
    table = [("GRPC KeepAlive Option", "Value"), *((name, str(value)) for name, value in rows)]
    left, right = (max(len(row[column]) for row in table) for column in (0, 1))
    rule = f"+{'-' * (left + 2)}+{'-' * (right + 2)}+"
    lines = [f"| {name:<{left}} | {value:<{right}} |" for name, value in table]
    logger.debug("%s", "\n".join(["", rule, lines[0], rule, *lines[1:], rule]))
