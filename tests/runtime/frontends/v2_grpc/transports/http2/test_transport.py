"""The listener of our own HTTP/2: what its flags mean, and how it sends clients elsewhere."""

import asyncio
import math

import grpc
import grpc.aio
import pytest

from charonia_runtime.frontends.v2_grpc import Frontend, Options
from charonia_runtime.frontends.v2_grpc.transports.http2.transport import limits_of
from charonia_runtime.wires.http2.limits import Limits
from tests.support.fake_server import FakeServer, answer, echo_config
from tests.support.grpc_calls import SERVICE, message
from tests.support.streams import OpenModel, request


def test_the_usual_flags_are_the_wires_own_limits() -> None:
    limits, usual = limits_of(Options()), Limits()
    assert (limits.keepalive_seconds, limits.keepalive_timeout_seconds) == (7200, 20)
    for name in ("keepalive_without_calls", "pings_without_data", "ping_strikes", "ping_interval_seconds"):
        assert getattr(limits, name) == getattr(usual, name)
    assert (limits.connection_age_seconds, limits.connection_age_grace_seconds) == (0, math.inf)


def test_every_flag_is_a_limit() -> None:
    options = Options(
        grpc_keepalive_time=1500,
        grpc_keepalive_timeout=250,
        grpc_keepalive_permit_without_calls=True,
        grpc_http2_max_pings_without_data=7,
        grpc_http2_min_recv_ping_interval_without_data=100,
        grpc_http2_max_ping_strikes=9,
        grpc_max_connection_age=60_000,
        grpc_max_connection_age_grace=5000,
    )
    limits = limits_of(options)
    assert (limits.keepalive_seconds, limits.keepalive_timeout_seconds) == (1.5, 0.25)
    assert limits.keepalive_without_calls
    assert (limits.pings_without_data, limits.ping_interval_seconds, limits.ping_strikes) == (7, 0.1, 9)
    assert (limits.connection_age_seconds, limits.connection_age_grace_seconds) == (60, 5)


def test_below_zero_is_never() -> None:
    limits = limits_of(Options(grpc_keepalive_time=-1, grpc_http2_max_ping_strikes=-1, grpc_max_connection_age=-1))
    assert (limits.keepalive_seconds, limits.ping_strikes, limits.connection_age_seconds) == (0, 0, 0)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_retiring_listener_serves_on_and_ends_its_connections() -> None:
    server, slow = FakeServer(), OpenModel()
    server.add(echo_config("slow"), slow)
    frontend = Frontend(Options(grpc_address="127.0.0.1", grpc_port=0, grpc_transport="http2"), server)
    await frontend.start()
    async with grpc.aio.insecure_channel(frontend.address) as channel:
        call = asyncio.ensure_future(channel.unary_unary(f"{SERVICE}/ModelInfer")(message(request("slow")), timeout=30))
        (asked,) = await slow.asked(1)
        assert channel.get_state() is grpc.ChannelConnectivity.READY
        frontend.retire()
        async with asyncio.timeout(20):
            await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        assert await channel.unary_unary(f"{SERVICE}/ServerReady")(b"", timeout=30) == b"\x08\x01"
        server.answer(asked, [answer(asked, {})])
        assert await call
    await frontend.stop(0)
