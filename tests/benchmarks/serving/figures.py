"""One figure: what a loader saw, beside what server, loader and the rest of the machine used meanwhile."""

import json
import resource
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tests.benchmarks.serving.loaders import LOADERS, Load
from tests.benchmarks.serving.process import ServerProcess

_NOISE_CORES = 0.15
"""Above, others disturb a figure: it is taken once more and the quieter one kept."""


@dataclass(frozen=True)
class Figure:
    """
    A measurement, one line of the results file.

    `cpu_microseconds` is the server's processor time for each request, `other_cores` what everything but server and
    loader used, the hypervisor's steal included.
    """

    row: str
    peer: str
    repetition: int
    concurrency: int
    rate: float
    p50: float
    p99: float
    errors: int
    cpu_microseconds: float
    other_cores: float


@dataclass(frozen=True)
class Start:
    """A start of a server: seconds until the first right answer, memory in bytes once it is idle."""

    row: str
    peer: str
    repetition: int
    seconds: float
    resident: int
    proportional: int


@dataclass(frozen=True)
class Limit:
    """What the machine does without any server: bare onnxruntime, the same threads, rows of one request each."""

    row: str
    rate: float


@dataclass(frozen=True)
class Failure:
    """A server that could not be measured, and why."""

    row: str
    peer: str
    repetition: int
    text: str


Record = Figure | Start | Limit | Failure
_KINDS: dict[str, type[Record]] = {kind.__name__: kind for kind in (Figure, Start, Limit, Failure)}


def line_of(record: Record) -> str:
    """A record as a line of the results file."""
    return json.dumps({"kind": type(record).__name__, **asdict(record)})


def read(path: Path) -> list[Record]:
    """The records of a results file."""
    return list(_records(path.read_text().splitlines()))


def _records(lines: Iterable[str]) -> Iterable[Record]:
    for line in lines:
        fields = json.loads(line)
        yield _KINDS[fields.pop("kind")](**fields)


def measure(server: ServerProcess, peer: str, repetition: int, concurrency: int, seconds: int) -> Figure:
    """Load the server; twice where others disturb the first attempt."""
    first = _measure_once(server, peer, repetition, concurrency, seconds)
    if first.other_cores <= _NOISE_CORES:
        return first
    second = _measure_once(server, peer, repetition, concurrency, seconds)
    return min(first, second, key=lambda figure: figure.other_cores)


def _measure_once(server: ServerProcess, peer: str, repetition: int, concurrency: int, seconds: int) -> Figure:
    begun, server_before, all_before, own_before = time.perf_counter(), server.cpu_seconds(), _busy(), _children()
    load: Load = LOADERS[server.row.loader](server, concurrency, seconds)
    wall = time.perf_counter() - begun
    server_used = server.cpu_seconds() - server_before
    others = _busy() - all_before - server_used - (_children() - own_before)
    return Figure(
        server.row.name, peer, repetition, concurrency, round(load.rate, 1), round(load.p50, 4), round(load.p99, 4),
        load.errors, round(1e6 * server_used / max(load.requests, 1), 1), round(max(others, 0.0) / wall, 3),
    )  # fmt: skip


def _busy() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
