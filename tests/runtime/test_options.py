"""What no group of flags can tell alone."""

import pytest

from charonia_runtime.options import parse_serve


def grpc_options(*arguments):
    return parse_serve(["--model-repository=x", *arguments], {}).frontends["v2_grpc"]


def test_our_own_transport_carries_grpc():
    assert grpc_options().grpc_transport == "http2"


@pytest.mark.parametrize(
    ("arguments", "age_ms"),
    [
        (["--drain-secs=20"], 0),
        (["--drain-secs=20", "--grpc-transport=grpcio"], 10_000),
        (["--grpc-transport=grpcio"], 0),
        (["--drain-secs=20", "--grpc-transport=grpcio", "--grpc-max-connection-age=7"], 7),
        (["--drain-secs=20", "--grpc-max-connection-age=7"], 7),
    ],
)
def test_connections_of_grpcio_live_half_as_long_as_a_drain(arguments, age_ms):
    """Nothing else makes its clients leave; ours are told to."""
    assert grpc_options(*arguments).grpc_max_connection_age == age_ms
