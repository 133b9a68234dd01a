"""What no group of flags can tell alone."""

import pytest

from charonia_runtime.flags import UsageError
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


def options(*arguments):
    return parse_serve(["--model-repository=x", *arguments], {})


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        ([], True),
        (["--server-version-compatibility=2.51.0"], True),
        (["--server-version-compatibility=2.73.0"], False),
        (["--server-version-compatibility=2.73.0", "--allow-client-shm=true"], True),
        (["--allow-client-shm=false"], False),
        (["--server-version-compatibility=2.51.0", "--allow-client-shm=false"], False),
    ],
)
def test_clients_may_register_memory_as_in_the_followed_triton(arguments, allowed):
    """A server whose user names no release keeps clients of every release working."""
    assert options(*arguments).shared_memory.allow_client_shm is allowed


def test_frontends_know_the_followed_triton():
    frontends = options("--server-version-compatibility=2.51.0").frontends

    assert not frontends["v2_http"].triton.newest_rules
    assert not frontends["v2_grpc"].triton.newest_rules


def test_a_followed_triton_that_is_no_version_is_refused():
    with pytest.raises(UsageError, match="must be a version of Triton, such as") as caught:
        options("--server-version-compatibility=newest")
    assert caught.value.flag == "server-version-compatibility"
