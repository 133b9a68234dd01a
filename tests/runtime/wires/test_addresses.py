"""Binding: what the operator is told when an address cannot be had."""

import socket

import pytest

from charonia_runtime.core.errors import InferenceError, InvalidArgumentError, UnavailableError
from charonia_runtime.wires.addresses import bind, join, reserve


def test_sockets_listen_at_once() -> None:
    with bind("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname(), timeout=5):
        assert not bound.getblocking()


def test_no_host_is_every_interface() -> None:
    with bind("", 0) as bound:
        assert bound.getsockname()[0] in {"0.0.0.0", "::"}


def test_ports_are_taken_once_unless_they_are_shared() -> None:
    with bind("127.0.0.1", 0, share_port=True) as first:
        port = first.getsockname()[1]
        with bind("127.0.0.1", port, share_port=True) as second:
            assert second.getsockname() == first.getsockname()
        with pytest.raises(UnavailableError) as caught:
            bind("127.0.0.1", port)

    assert caught.value.message == f"Socket '127.0.0.1:{port}' already in use "


def test_a_reserved_port_is_for_those_that_share_it() -> None:
    with reserve("127.0.0.1", 0) as kept:
        port = kept.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(kept.getsockname(), timeout=5)
        with bind("127.0.0.1", port, share_port=True), socket.create_connection(kept.getsockname(), timeout=5):
            reserve("127.0.0.1", port, share_port=True).close()
            with pytest.raises(UnavailableError, match="already in use"):
                reserve("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "port", "error", "message"),
    [
        ("no such host", 1, InvalidArgumentError, "cannot listen on 'no such host:1': Name or service not known"),
        ("203.0.113.1", 0, UnavailableError, "cannot listen on '203.0.113.1:0': Cannot assign requested address"),
    ],
)
def test_addresses_that_cannot_be_had(host: str, port: int, error: type[InferenceError], message: str) -> None:
    with pytest.raises(error) as caught:
        bind(host, port)

    assert caught.value.message == message


def test_colons_in_hosts() -> None:
    assert join("::1", 8000) == "[::1]:8000"
    assert join("localhost", 8000) == "localhost:8000"
