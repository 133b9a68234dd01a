"""
The flags of `charonia serve`: which groups there are, and what no group can check alone.

Each group is an options dataclass of the part that it configures; frontends bring their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from charonia_runtime.access_files import AccessOptions
from charonia_runtime.compatibility import CompatibilityOptions
from charonia_runtime.core.frontend import FrontendModule
from charonia_runtime.engine.cache_options import CacheOptions
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.engine.rate_limit_options import RateLimitOptions
from charonia_runtime.engine.shared_memory import SharedMemoryOptions
from charonia_runtime.engine.trace_options import TraceOptions
from charonia_runtime.environment import Environment
from charonia_runtime.flags import Flags, Group, Parsed, UsageError
from charonia_runtime.frontends import frontend_names, load_frontend
from charonia_runtime.logs import LogOptions
from charonia_runtime.remote.options import ProcessOptions

_AGE_MS = 500
"""
Milliseconds that connections of grpcio may live for each second of a drain: the other half is for load balancers to
notice.
"""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Everything that `charonia serve` was told."""

    engine: EngineOptions
    access: AccessOptions
    log: LogOptions
    trace: TraceOptions
    cache: CacheOptions
    rate_limit: RateLimitOptions
    shared_memory: SharedMemoryOptions
    compatibility: CompatibilityOptions
    frontends: Mapping[str, Any]
    """Name of the frontend's module → its options, in the order in which frontends start."""
    processes: ProcessOptions
    given: tuple[str, ...]
    """The flags of the command line."""
    arguments: tuple[str, ...]
    """The command line itself, for processes that do a part of the work."""
    environment: Environment

    @property
    def count_first_responses(self) -> bool:
        """Whether the metrics show how long clients wait for their first response."""
        metrics = self.frontends["metrics"]
        return bool(metrics.enabled and metrics.histogram_latencies)


def serve_flags() -> Flags:
    """The flags of `charonia serve`, by group."""
    return Flags(
        [
            Group("Server and model repository", EngineOptions),
            Group("Logging", LogOptions),
            *(Group(module.Frontend.name, module.Options) for module in _frontends().values()),
            Group("Processes", ProcessOptions),
            Group("Access", AccessOptions),
            Group("Tracing", TraceOptions),
            Group("Response cache", CacheOptions),
            Group("Rate limiter", RateLimitOptions),
            Group("Shared memory", SharedMemoryOptions),
            Group("Accepted for compatibility, without effect", CompatibilityOptions),
        ]
    )


def parse_serve(arguments: Sequence[str], variables: Mapping[str, str]) -> ServeOptions:
    """Read the arguments of `charonia serve`, and its environment variables. Raises UsageError."""
    parsed = serve_flags().parse(arguments)
    engine = parsed.get(EngineOptions)
    if not engine.model_repositories:
        raise UsageError("creating server: Invalid argument - --model-repository must be specified")
    environment = Environment.read(variables)
    frontends = {name: parsed.values[module.Options] for name, module in _frontends().items()}
    return ServeOptions(
        engine=replace(engine, stream_buffer_size=frontends["v2_http"].stream_buffer_size),
        access=parsed.get(AccessOptions),
        log=parsed.get(LogOptions),
        trace=replace(parsed.get(TraceOptions), span_batches=environment.span_batches),
        cache=parsed.get(CacheOptions),
        rate_limit=parsed.get(RateLimitOptions),
        shared_memory=_shared_memory(parsed),
        compatibility=parsed.get(CompatibilityOptions),
        frontends=_with_what_they_borrow(frontends, parsed, environment),
        processes=parsed.get(ProcessOptions),
        given=parsed.given,
        arguments=tuple(arguments),
        environment=environment,
    )


def _frontends() -> dict[str, FrontendModule]:
    return {name: load_frontend(name) for name in frontend_names()}


def _with_what_they_borrow(frontends: Mapping[str, Any], parsed: Parsed, environment: Environment) -> dict[str, Any]:
    """
    The metrics listen on the HTTP frontend's address unless told otherwise.

    gRPC connections on grpcio live half as long as a drain: only their age makes clients open others elsewhere.
    """
    tokens = parsed.get(AccessOptions).tokens
    triton = parsed.get(EngineOptions).triton
    requests = parsed.get(LogOptions).requests
    http = replace(frontends["v2_http"], access_tokens=tokens, triton=triton, request_log=requests)
    metrics = replace(
        frontends["metrics"],
        metrics_address=frontends["metrics"].metrics_address or frontends["v2_http"].http_address,
        pinned_memory_pool_bytes=parsed.get(CompatibilityOptions).pinned_memory_pool_byte_size,
    )
    grpc = frontends["v2_grpc"]
    grpc = replace(
        grpc,
        stream_buffer_size=http.stream_buffer_size,
        response_delay_seconds=environment.grpc_delay_seconds,
        access_tokens=tokens,
        triton=triton,
        request_log=requests,
        grpc_max_connection_age=grpc.grpc_max_connection_age or _age_ms(grpc.grpc_transport, parsed),
    )
    return {**frontends, "v2_http": http, "metrics": metrics, "v2_grpc": grpc}


def _shared_memory(parsed: Parsed) -> SharedMemoryOptions:
    """What clients may do with shared memory: what the flag says, else what the followed Triton does."""
    if "allow-client-shm" in parsed.given or not parsed.get(EngineOptions).triton.refuses_client_memory:
        return parsed.get(SharedMemoryOptions)
    return SharedMemoryOptions(allow_client_shm=False)


def _age_ms(transport: str, parsed: Parsed) -> int:
    """How long gRPC connections live where no flag says so; 0 for ever: our own transport can tell clients to leave."""
    return int(parsed.get(EngineOptions).drain_secs * _AGE_MS) if transport == "grpcio" else 0
