"""
A soak: hostile and honest requests side by side, and what the server holds every minute.

    python -m tests.abuse --requests 1000000 --minutes 60

It goes on until so many requests and so many minutes are over. It ends with code 1 when an honest client lost a
request, or when the server holds more than after the first minute.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Self

from tests.abuse.attacked_server import Holdings, attacked_server, holdings
from tests.abuse.grpc_attacks import grpc_attacks
from tests.abuse.honest import HonestClients
from tests.abuse.http_attacks import http_attacks
from tests.abuse.steps import Attack, run
from tests.support.processes import ServerProcess

_MEGABYTES = 150
"""How far memory may be above that of the first minute: large bodies come and go."""
_DESCRIPTORS = 40
"""Connections of attackers that are under way."""


class Attackers:
    """Threads that make attacks in a random order until the block ends, and count them."""

    def __init__(self, server: ServerProcess, attacks: list[Attack], threads: int, seed: int) -> None:
        self.count = 0
        self._ports = {"http": server.http_port, "grpc": server.grpc_port, "metrics": server.metrics_port}
        self._attacks = attacks
        self._weights = [1 / attack.cost**3 for attack in attacks]
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._attack, args=(random.Random(seed + index),), daemon=True)
            for index in range(threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def _attack(self, choice: random.Random) -> None:
        while not self._over.is_set():
            (attack,) = choice.choices(self._attacks, self._weights)
            run(attack, ("127.0.0.1", self._ports[attack.port]), send_seconds=2)
            self.count += 1


def soak(server: ServerProcess, requests: int, minutes: float, threads: int, seed: int) -> bool:
    """Attack and ask until both limits are reached. Returns whether all is as it should be."""
    attacks = [attack for attack in (*http_attacks(), *grpc_attacks()) if attack.cost <= 2]
    first: Holdings | None = None
    begin, reported = time.monotonic(), time.monotonic()
    with (
        HonestClients(server.http_port, server.grpc_port, each=3, pace=_pace(requests, minutes, 6)) as honest,
        Attackers(server, attacks, threads, seed) as hostile,
    ):
        done, now = 0, begin
        while (done < requests or now - begin < minutes * 60) and server.process.poll() is None:
            time.sleep(1)
            done, now = len(honest.record.seconds) + hostile.count, time.monotonic()
            if now - reported > 60:
                reported, state = now, holdings(server)
                first = first or state
                print(_line(now - begin, done, hostile.count, honest, state), flush=True)
    time.sleep(5)
    last = holdings(server)
    print("after 5 s of rest:", _line(time.monotonic() - begin, done, hostile.count, honest, last), flush=True)
    for fault in honest.record.faults[:20]:
        print("lost:", fault)
    first = first or last
    grown = last.megabytes > first.megabytes + _MEGABYTES or last.descriptors > first.descriptors + _DESCRIPTORS
    return not honest.record.faults and not grown and server.process.poll() is None


def _pace(requests: int, minutes: float, clients: int) -> float:
    """Seconds between two requests of one client, so that on an idle machine they reach the number in half of the time."""
    return 0.4 * minutes * 60 * clients / requests


def _line(seconds: float, done: int, hostile: int, honest: HonestClients, state: Holdings) -> str:
    record = honest.record
    return (
        f"{seconds / 60:5.1f} min  {done:>9,} requests, {hostile:,} hostile  honest: {len(record.faults)} lost, p50 "
        f"{record.median * 1000:.1f} ms, p99 {record.quantile(0.99) * 1000:.1f} ms  server: {state.megabytes:.0f} MiB, "
        f"{state.descriptors} descriptors, {state.threads} threads"
    )


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.abuse", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000, help="Make at least so many requests.")
    parser.add_argument("--minutes", type=float, default=60, help="Go on for at least so many minutes.")
    parser.add_argument("--attackers", type=int, default=4, help="Threads that attack.")
    parser.add_argument("--seed", type=int, default=0, help="Order of the attacks.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, attacked_server(Path(folder)) as server:
        fine = soak(server, asked.requests, asked.minutes, asked.attackers, asked.seed)
    print("passed" if fine else "failed")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
