"""What all exchanges of the frontend share."""

from collections.abc import Mapping
from dataclasses import dataclass

from charonia_runtime.core.access import AccessTokens
from charonia_runtime.core.forwarding import HeaderFilter
from charonia_runtime.core.restrictions import Restriction
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_http.options import Options
from charonia_runtime.frontends.v2_http.prefixes import PathPrefixes
from charonia_runtime.protocols.v2_json import RequestDecoder
from charonia_runtime.request_log import RequestLog
from charonia_runtime.wires.http1.limits import Limits


@dataclass(frozen=True, slots=True)
class Services:
    """The server, and the options in their working form."""

    server: InferenceServer
    limits: Limits
    restrictions: Mapping[str, Restriction]
    header_filter: HeaderFilter
    decoder: RequestDecoder
    prefixes: PathPrefixes
    stream_bytes: int
    """How much of a stream may wait for its client."""
    access_tokens: AccessTokens | None
    """None lets everybody in."""
    request_log: RequestLog
    newest_rules: bool
    """Whether requests are checked as Triton's releases after 2.51 do."""

    @classmethod
    def of(cls, options: Options, server: InferenceServer) -> "Services":
        return cls(
            server,
            options.limits(),
            options.restrictions(),
            options.header_filter(),
            RequestDecoder(options.http_max_input_size, newest_rules=options.triton.newest_rules),
            options.prefixes(),
            options.stream_buffer_size,
            options.access_tokens,
            options.request_log,
            options.triton.newest_rules,
        )
