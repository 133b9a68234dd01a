"""The flags of the HTTP listener."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from charonia_runtime.core.access import AccessTokens
from charonia_runtime.core.followed_triton import FollowedTriton
from charonia_runtime.core.forwarding import HeaderFilter
from charonia_runtime.core.frontend import OptionError, option
from charonia_runtime.core.restrictions import Restriction, parse_restrictions
from charonia_runtime.core.streams import STREAM_BUFFER_BYTES
from charonia_runtime.frontends.v2_http.prefixes import PathPrefixes
from charonia_runtime.request_log import RequestLog
from charonia_runtime.wires.http1.limits import Limits
from charonia_runtime.wires.http1.listener import TlsFiles

_RESTRICTION_FLAG = "http-restricted-api"
_FORWARD_FLAG = "http-header-forward-pattern"
_SIZE_FLAG = "http-max-input-size"
_STREAM_FLAG = "stream-buffer-size"
_TIMEOUTS = ("http_read_timeout_secs", "http_head_timeout_secs", "http_idle_timeout_secs", "http_write_timeout_secs")


@dataclass(frozen=True)
class Options:
    """Where and how to listen. Raises OptionError."""

    enabled: bool = option(True, "Serve HTTP.", flag="allow-http")
    http_address: str = option("0.0.0.0", "The address to listen on.")
    http_port: int = option(8000, "The port to listen on.")
    reuse_http_port: bool = option(False, "Let several processes listen on the port (SO_REUSEPORT).")
    http_thread_count: int = option(8, "Accepted for compatibility: one event loop handles every request.")
    http_max_input_size: int = option(
        64 * 1024 * 1024, "The largest request body, before and after decompression (bytes)."
    )
    http_header_forward_pattern: str = option(
        "", "Headers whose name contains a match of this regular expression become request parameters."
    )
    http_restricted_api: tuple[str, ...] = option(
        (), "Answer these groups of routes only when the header <key> has the value.",
        metavar="<group>,<group>:<key>=<value>",
    )  # fmt: skip
    http_read_timeout_secs: int = option(
        60,
        "How long a client may pause in the middle of a request, or before its first one; 0 for any time (s). Bodies "
        "that come more slowly than 500 bytes a second are refused as well.",
    )
    http_head_timeout_secs: int = option(
        60, "How long the request line and the headers of a request may take to arrive; 0 for any time (s)."
    )
    http_idle_timeout_secs: int = option(
        3600, "How long a connection may wait for its next request before it is closed; 0 for any time (s)."
    )
    http_write_timeout_secs: int = option(
        30, "How long a client may take nothing of an answer before its connection is closed; 0 for any time (s)."
    )
    stream_buffer_size: int = option(
        STREAM_BUFFER_BYTES,
        "How much of one stream of responses may wait for its client, over HTTP and gRPC alike (bytes). A client that "
        "is further behind is cut off when its model sends more. So much may also wait for a step of an ensemble that "
        "max_inflight_requests holds back; then the request fails.",
    )
    http_use_ssl: bool = option(False, "Serve over TLS (HTTPS).")
    http_use_ssl_mutual: bool = option(False, "Serve over TLS and demand a certificate from clients.")
    http_server_cert: str = option("", "File with the server's certificate chain, PEM.")
    http_server_key: str = option("", "File with the server's private key, PEM.")
    http_root_cert: str = option("", "File with the certificates that clients' ones must descend from, PEM.")
    path_prefix: tuple[str, ...] = option(
        (), "Serve every HTTP route below this path, too: what a gateway in front of the server does not take away. "
        "May be given several times.",
        metavar="</path>",
    )  # fmt: skip
    access_tokens: AccessTokens | None = None
    """What clients must have one of; no flag of HTTP alone. None lets everybody in."""
    triton: FollowedTriton = field(default_factory=FollowedTriton)
    """The release whose rules apply where releases of Triton differ; no flag of HTTP alone."""
    request_log: RequestLog = field(default_factory=RequestLog, compare=False)
    """Is told of each request that is over; no flag of HTTP alone."""

    def __post_init__(self) -> None:
        if self.http_max_input_size <= 0:
            raise OptionError(_SIZE_FLAG, f"Error: --{_SIZE_FLAG} must be greater than 0.")
        for name in _TIMEOUTS:
            if getattr(self, name) < 0:
                flag = name.replace("_", "-")
                raise OptionError(flag, f"Error: --{flag} must not be negative.")
        if self.stream_buffer_size <= 0:
            raise OptionError(_STREAM_FLAG, f"Error: --{_STREAM_FLAG} must be greater than 0.")
        if not 0 <= self.http_port <= 65535:
            raise OptionError("http-port", f"--http-port must be between 0 and 65535, got {self.http_port}")
        self.tls()
        self.restrictions()
        self.header_filter()
        self.prefixes()

    def tls(self) -> TlsFiles | None:
        """The files of HTTPS; None for plain HTTP."""
        if not (self.http_use_ssl or self.http_use_ssl_mutual):
            return None
        needed = [("http-server-cert", self.http_server_cert), ("http-server-key", self.http_server_key)]
        if self.http_use_ssl_mutual:
            needed.append(("http-root-cert", self.http_root_cert))
        for flag, path in needed:
            if not path:
                raise OptionError(flag, f"Error: HTTPS needs a file: --{flag} must be specified.")
        return TlsFiles(self.http_server_cert, self.http_server_key, self.http_root_cert or None)

    def limits(self) -> Limits:
        """What one client may ask of the server."""
        return Limits(
            self.http_max_input_size,
            read_timeout_seconds=self.http_read_timeout_secs or math.inf,
            head_timeout_seconds=self.http_head_timeout_secs or math.inf,
            idle_timeout_seconds=self.http_idle_timeout_secs or math.inf,
            write_timeout_seconds=self.http_write_timeout_secs or math.inf,
        )

    def restrictions(self) -> Mapping[str, Restriction]:
        """Category of routes → the header it asks for."""
        return parse_restrictions(self.http_restricted_api, flag=_RESTRICTION_FLAG, noun="api", kind="API")

    def header_filter(self) -> HeaderFilter:
        """Picks the headers that become request parameters."""
        return HeaderFilter(self.http_header_forward_pattern, _FORWARD_FLAG)

    def prefixes(self) -> PathPrefixes:
        """Where routes are served beside their own paths."""
        return PathPrefixes(self.path_prefix)
