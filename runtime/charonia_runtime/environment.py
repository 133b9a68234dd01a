"""The environment variables that Triton's users set: the only place that knows their names."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from charonia_runtime.devices import visible_gpus

_REDIS_CREDENTIALS = {"user": "TRITONCACHE_REDIS_USERNAME", "password": "TRITONCACHE_REDIS_PASSWORD"}
_SPAN_BATCHES = {
    "bsp_max_queue_size": "OTEL_BSP_MAX_QUEUE_SIZE",
    "bsp_schedule_delay": "OTEL_BSP_SCHEDULE_DELAY",
    "bsp_max_export_batch_size": "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
}
_PARALLEL = {"0": False, "1": True}


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment of the process says."""

    gpus: tuple[int, ...] = ()
    """Ids of the GPUs that models may use."""
    quote_log_messages: bool = True
    """Off with `TRITON_SERVER_ESCAPE_LOG_MESSAGES=0`."""
    parallel_instances: bool | None = None
    """`TRITON_PARALLEL_INSTANCE_LOADING`; None leaves it to the backends."""
    scheduler_waits_for: int = 0
    """`TRITONSERVER_DELAY_SCHEDULER`: how many requests must wait before the first runs; for tests of batching."""
    backlog_waits_for: int = 0
    """`TRITONSERVER_BACKLOG_DELAY_SCHEDULER`: the same of sequences without a slot."""
    grpc_delay_seconds: float = 0.0
    """`TRITONSERVER_SERVER_DELAY_GRPC_RESPONSE_SEC`: delay of answers that are no inference; for tests of clients."""
    redis_credentials: Mapping[str, str] = field(default_factory=dict)
    """`user` and `password` of the Redis cache: `TRITONCACHE_REDIS_USERNAME` and `TRITONCACHE_REDIS_PASSWORD`."""
    span_batches: Mapping[str, str] = field(default_factory=dict)
    """Settings of `--trace-config opentelemetry,…` by the names of OpenTelemetry's own variables, `OTEL_BSP_…`."""

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> "Environment":
        """Values that make no sense are as good as none, as in Triton, but for those that `TraceOptions` refuses."""
        return cls(
            gpus=visible_gpus(variables),
            quote_log_messages=variables.get("TRITON_SERVER_ESCAPE_LOG_MESSAGES") != "0",
            parallel_instances=_PARALLEL.get(variables.get("TRITON_PARALLEL_INSTANCE_LOADING", "")),
            scheduler_waits_for=_count(variables.get("TRITONSERVER_DELAY_SCHEDULER", "")),
            backlog_waits_for=_count(variables.get("TRITONSERVER_BACKLOG_DELAY_SCHEDULER", "")),
            grpc_delay_seconds=float(_count(variables.get("TRITONSERVER_SERVER_DELAY_GRPC_RESPONSE_SEC", ""))),
            redis_credentials={name: variables[key] for name, key in _REDIS_CREDENTIALS.items() if key in variables},
            span_batches={name: variables[key] for name, key in _SPAN_BATCHES.items() if variables.get(key)},
        )


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
