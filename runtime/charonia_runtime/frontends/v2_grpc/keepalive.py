"""What is in force to keep connections alive, as Triton logs it when it is asked to be verbose."""

from charonia_runtime.frontends.v2_grpc.options import Options
from charonia_runtime.logs import Table, table


def keepalive_table(options: Options) -> Table:
    """The two columns; ages only where connections have one."""
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
    return table(("GRPC KeepAlive Option", "Value"), [(name, str(value)) for name, value in rows])
