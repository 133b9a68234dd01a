"""Every attack against a real server with honest clients beside it: none of them loses a request."""

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.abuse.attacked_server import attacked_server, holdings
from tests.abuse.grpc_attacks import grpc_attacks
from tests.abuse.honest import HonestClients, is_ready
from tests.abuse.http_attacks import http_attacks
from tests.abuse.steps import Attack, Outcome, run
from tests.support.processes import ServerProcess

pytestmark = pytest.mark.timeout(300)

ATTACKERS = 3
NAMES = [attack.name for attack in (*http_attacks(), *grpc_attacks())]
MEGABYTES = 400
"""The server may grow by so much; bodies of the size that it accepts are among the attacks."""
SECONDS = 5
"""How long an honest client may wait: far above what it waits on an idle machine, far below what attacks once caused."""


def found(name: str) -> Attack:
    return next(attack for attack in (*http_attacks(), *grpc_attacks()) if attack.name == name)


def attack_by_name(name: str, address: tuple[str, int]) -> Outcome:
    """One attack, in a process of its own: its bytes are made there."""
    return run(found(name), address)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with attacked_server(tmp_path_factory.mktemp("attacked")) as server:
        with HonestClients(server.http_port, server.grpc_port):
            time.sleep(1)  # first requests make what is kept for all later ones
        yield server


@pytest.fixture(scope="module")
def attackers() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(ATTACKERS, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_honest_clients_lose_nothing(server: ServerProcess, attackers: ProcessPoolExecutor, name: str) -> None:
    attack = found(name)
    port = {"http": server.http_port, "grpc": server.grpc_port, "metrics": server.metrics_port}[attack.port]
    before = holdings(server)

    with HonestClients(server.http_port, server.grpc_port) as honest:
        attacks = [attackers.submit(attack_by_name, name, ("127.0.0.1", port)) for _ in range(ATTACKERS)]
        outcomes = [each.result(200) for each in attacks]

    assert honest.record.faults == []
    assert honest.record.seconds
    assert honest.record.quantile(0.99) < SECONDS
    if attack.statuses:
        assert {outcome.status for outcome in outcomes} <= attack.statuses, outcomes
    assert is_ready(server.http_port)
    after = settled(server, before.descriptors)
    assert after.descriptors <= before.descriptors + 4
    assert after.megabytes < before.megabytes + MEGABYTES
    assert "Traceback" not in server.log


def settled(server: ServerProcess, descriptors: int):
    """What the server holds once the connections of attackers are gone, ten seconds at most."""
    deadline = time.monotonic() + 10
    while (now := holdings(server)).descriptors > descriptors + 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    return now


def test_some_attacks_of_each_kind_and_a_stop_in_time(tmp_path) -> None:
    """The check runs these; `-m slow` runs every attack with several attackers at once."""
    names = [
        "two hosts", "gzip before chunked", "many trailers", "half-closed request", "many dimensions", "gzip bomb",
        "pipelined and not read", "rapid resets", "empty inputs in a message (long)",
    ]  # fmt: skip
    with attacked_server(tmp_path) as server:
        with HonestClients(server.http_port, server.grpc_port, each=1) as honest:
            for attack in map(found, names):
                port = server.grpc_port if attack.port == "grpc" else server.http_port
                outcome = run(attack, ("127.0.0.1", port))
                assert not attack.statuses or outcome.status in attack.statuses, attack.name
        assert honest.record.faults == []
        assert honest.record.seconds
        assert server.stop() == 0
        assert "Traceback" not in server.log
