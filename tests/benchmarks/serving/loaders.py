"""The programs that load a server, all written in C or C++ and the same for every server: wrk, h2load, perf_analyzer."""

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path

from tests.benchmarks.serving.process import ServerProcess
from tests.benchmarks.serving.repositories import PROGRAMS
from tests.benchmarks.serving.workload import grpc_message

_WINDOW_BITS = "26"
"""HTTP/2 flow control of the loader: wide enough never to be what is measured."""


@dataclass(frozen=True)
class Load:
    """What a loader saw. Percentiles are milliseconds."""

    requests: int
    rate: float
    p50: float
    p99: float
    errors: int


class LoaderError(Exception):
    """A loader that printed no figures, with the end of what it printed."""


Loader = Callable[[ServerProcess, int, int], Load]
"""Server, connections, seconds → what was seen."""


def _wrk(server: ServerProcess, concurrency: int, seconds: int) -> Load:
    request = server.http_request
    body, headers = server.folder / "body", server.folder / "headers"
    body.write_bytes(request.body)
    headers.write_text("".join(f"{name}: {value}\n" for name, value in request.headers.items()))
    text = _run(
        ["wrk", "-t1", f"-c{concurrency}", f"-d{seconds}s", "--timeout", "30s", "-s", str(PROGRAMS / "post.lua"),
         f"http://127.0.0.1:{server.http_port}{request.path}"],
        {"BODY": str(body), "HEADERS": str(headers)},
    )  # fmt: skip
    count, microseconds, p50, p99, errors = map(float, _found(r"RESULT (\S+) (\S+) (\S+) (\S+) (\S+)", text).groups())
    return Load(int(count), count / microseconds * 1e6, p50 / 1000, p99 / 1000, int(errors))


def _h2load(server: ServerProcess, concurrency: int, seconds: int) -> Load:
    message = grpc_message(server.row.network)
    body, log = server.folder / "message", server.folder / "h2load.log"
    body.write_bytes(b"\0" + struct.pack(">I", len(message)) + message)
    log.unlink(missing_ok=True)
    text = _run(
        ["h2load", "-t1", f"-c{concurrency}", "-m1", "-w", _WINDOW_BITS, "-W", _WINDOW_BITS, f"-D{seconds}",
         "-d", str(body), "-H", "content-type: application/grpc", "-H", "te: trailers", f"--log-file={log}",
         f"http://127.0.0.1:{server.grpc_port}/inference.GRPCInferenceService/ModelInfer"],
        {},
    )  # fmt: skip
    done, succeeded = map(int, _found(r"(\d+) done, (\d+) succeeded", text).groups())
    times = sorted(int(line.split("\t")[2]) for line in log.read_text().splitlines()) or [0]
    p50, p99 = times[len(times) // 2] / 1000, times[len(times) * 99 // 100] / 1000
    return Load(done, done / seconds, p50, p99, done - succeeded)


def _perf_analyzer(protocol: str) -> Loader:
    def load(server: ServerProcess, concurrency: int, seconds: int) -> Load:
        port = server.grpc_port if protocol == "grpc" else server.http_port
        network = server.row.network
        text = _run(
            [os.environ.get("PERF_ANALYZER", "perf_analyzer"), "-m", network.name, "-u", f"127.0.0.1:{port}",
             "-i", protocol, "--concurrency-range", f"{concurrency}:{concurrency}", "-b", "1",
             "-p", str(seconds * 500), "-r", "3", "-s", "100", "--shared-memory", "system",
             "--output-shared-memory-size", str(4 * prod(network.output_shape))],
            {},
        )  # fmt: skip
        rate = float(_found(r"Throughput: ([\d.]+)", text).group(1))
        p50, p99 = (float(_found(rf"{name} latency: (\d+)", text).group(1)) / 1000 for name in ("p50", "p99"))
        return Load(int(rate * seconds * 1.5), rate, p50, p99, 0)

    return load


LOADERS: dict[str, Loader] = {
    "wrk": _wrk,
    "h2load": _h2load,
    "perf_analyzer_http": _perf_analyzer("http"),
    "perf_analyzer_grpc": _perf_analyzer("grpc"),
}


def missing_program(loader: str) -> str | None:
    """The program that a loader needs and this machine lacks."""
    program = os.environ.get("PERF_ANALYZER", "perf_analyzer") if loader.startswith("perf_analyzer") else loader
    return None if shutil.which(program) or Path(program).exists() else program


def _run(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        arguments, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )  # fmt: skip
    return done.stdout + done.stderr


def _found(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text)
    if found is None:
        raise LoaderError(f"the loader printed no figures: {text[-1000:]}")
    return found
