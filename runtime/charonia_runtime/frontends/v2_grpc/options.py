"""The flags of the gRPC listener."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from charonia_runtime.core.access import AccessTokens
from charonia_runtime.core.followed_triton import FollowedTriton
from charonia_runtime.core.forwarding import HeaderFilter
from charonia_runtime.core.frontend import OptionError, option
from charonia_runtime.core.restrictions import Restriction, parse_restrictions
from charonia_runtime.core.streams import STREAM_BUFFER_BYTES
from charonia_runtime.request_log import RequestLog

COMPRESSION_LEVELS = ("none", "low", "medium", "high")
"""In the order of grpc's own enumeration. Which algorithm a level means depends on what the client accepts."""
TRANSPORTS = ("http2", "grpcio")
"""The modules of `transports`."""
_TRANSPORT_FLAG = "grpc-transport"
_RESTRICTION_FLAG = "grpc-restricted-protocol"
_FORWARD_FLAG = "grpc-header-forward-pattern"
_TIMEOUTS = ("grpc_read_timeout_secs", "grpc_write_timeout_secs", "grpc_idle_timeout_secs")
_POOL_FLAG = "grpc-max-response-pool-size"


@dataclass(frozen=True)
class Options:
    """Where and how to listen. Durations are milliseconds, as in Triton's flags. Raises OptionError."""

    enabled: bool = option(True, "Serve gRPC.", flag="allow-grpc")
    grpc_address: str = option("0.0.0.0", "The address to listen on.")
    grpc_port: int = option(8001, "The port to listen on.")
    grpc_transport: str = option(
        "http2",
        "What carries gRPC: `http2` is this server's own HTTP/2, which needs a quarter of the processor time for small "
        "tensors; `grpcio` is Google's library, to compare with when a client misbehaves. Answers are the same.",
        metavar="<http2|grpcio>",
    )
    reuse_grpc_port: bool = option(False, "Let several processes listen on the port (SO_REUSEPORT).")
    grpc_header_forward_pattern: str = option(
        "", "Metadata whose key contains a match of this regular expression becomes a request parameter."
    )
    grpc_infer_thread_count: int = option(2, "Accepted for compatibility: one event loop handles every call.")
    grpc_infer_allocation_pool_size: int = option(8, "Accepted for compatibility: nothing is pooled.")
    grpc_max_response_pool_size: int = option(
        0, "How many responses of a request to a decoupled model may wait to be written before the model is held back; "
        "0 leaves it to their size."
    )  # fmt: skip
    grpc_use_ssl: bool = option(False, "Serve over TLS.")
    grpc_use_ssl_mutual: bool = option(False, "Serve over TLS and demand a certificate from clients.")
    grpc_server_cert: str = option("", "File with the server's certificate chain, PEM.")
    grpc_server_key: str = option("", "File with the server's private key, PEM.")
    grpc_root_cert: str = option("", "File with the certificates that clients' ones must descend from, PEM.")
    grpc_infer_response_compression_level: str = option(
        "none", "Compress answers, for clients that accept it.", metavar="<none|low|medium|high>"
    )
    grpc_read_timeout_secs: int = option(
        60, "How long a client may pause in the middle of the request of a call with one message; 0 for any time (s)."
    )
    grpc_write_timeout_secs: int = option(
        30, "How long a client may take nothing of its answers before its connection is closed; 0 for any time (s)."
    )
    grpc_idle_timeout_secs: int = option(
        3600, "How long a connection may have no call before its client is asked to connect anew; 0 for any time (s)."
    )
    grpc_keepalive_time: int = option(7_200_000, "Time without activity after which a client is pinged (ms).")
    grpc_keepalive_timeout: int = option(20_000, "Time to wait for the answer to a ping (ms).")
    grpc_keepalive_permit_without_calls: bool = option(False, "Ping clients that have no call in flight, too.")
    grpc_http2_max_pings_without_data: int = option(2, "How many pings may be sent without data in between.")
    grpc_http2_min_recv_ping_interval_without_data: int = option(
        300_000, "Clients that ping more often than this without data in between get a strike (ms)."
    )
    grpc_http2_max_ping_strikes: int = option(2, "How many strikes a client may collect; 0 for any number.")
    grpc_max_connection_age: int = option(0, "Age at which connections are closed gracefully (ms); 0 for never.")
    grpc_max_connection_age_grace: int = option(0, "Time that calls have to end after that (ms); 0 for any time.")
    grpc_restricted_protocol: tuple[str, ...] = option(
        (), "Answer these groups of calls only when the metadata `triton-grpc-protocol-<key>` has the value.",
        metavar="<group>,<group>:<key>=<value>",
    )  # fmt: skip
    stream_buffer_size: int = field(default=STREAM_BUFFER_BYTES)
    """How many bytes of a stream may wait for its client; no flag of gRPC alone."""
    response_delay_seconds: float = 0.0
    """Delay of every answer that is no inference; no flag, but an environment variable for tests of clients."""
    access_tokens: AccessTokens | None = None
    """What clients must have one of; no flag of gRPC alone. None lets everybody in."""
    triton: FollowedTriton = field(default_factory=FollowedTriton)
    """The release whose rules apply where releases of Triton differ; no flag of gRPC alone."""
    request_log: RequestLog = field(default_factory=RequestLog, compare=False)
    """Is told of each request that is over; no flag of gRPC alone."""

    def __post_init__(self) -> None:
        if self.grpc_transport not in TRANSPORTS:
            raise OptionError(
                _TRANSPORT_FLAG,
                f"--{_TRANSPORT_FLAG} must be one of {', '.join(TRANSPORTS)}, got '{self.grpc_transport}'",
            )
        if not 0 <= self.grpc_port <= 65535:
            raise OptionError("grpc-port", f"--grpc-port must be between 0 and 65535, got {self.grpc_port}")
        for name in _TIMEOUTS:
            if getattr(self, name) < 0:
                flag = name.replace("_", "-")
                raise OptionError(flag, f"Error: --{flag} must not be negative.")
        if self.grpc_infer_response_compression_level not in COMPRESSION_LEVELS:
            raise OptionError(
                "grpc-infer-response-compression-level", "invalid argument for --grpc_infer_response_compression_level"
            )
        if self.grpc_max_response_pool_size < 0:
            raise OptionError(_POOL_FLAG, f"Error: --{_POOL_FLAG} must be greater than 0.")
        self.restrictions()
        self.header_filter()

    def restrictions(self) -> Mapping[str, Restriction]:
        """Category of calls → the metadata it asks for."""
        return parse_restrictions(
            self.grpc_restricted_protocol, flag=_RESTRICTION_FLAG, noun="protocol", kind="protocol",
            header_prefix="triton-grpc-protocol-",
        )  # fmt: skip

    def header_filter(self) -> HeaderFilter:
        """Picks the metadata that becomes request parameters."""
        return HeaderFilter(self.grpc_header_forward_pattern, _FORWARD_FLAG)

    @property
    def uses_tls(self) -> bool:
        return self.grpc_use_ssl or self.grpc_use_ssl_mutual
