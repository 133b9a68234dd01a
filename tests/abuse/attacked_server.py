"""A server to attack, in a process of its own, and what it holds: memory, descriptors, threads, processes."""

from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.processes import ServerProcess
from tests.support.repositories import write_model

_MODELS = {"numbers": "TYPE_FP32", "texts": "TYPE_STRING", "bytes": "TYPE_UINT8", "flags": "TYPE_BOOL"}
FLAGS = (
    "--http-head-timeout-secs=5", "--http-read-timeout-secs=5", "--http-write-timeout-secs=5",
    "--exit-timeout-secs=10",
)  # fmt: skip
"""Short limits, so that what they end ends within a test."""


@dataclass(frozen=True)
class Holdings:
    """What a process holds; `megabytes` is its resident memory."""

    megabytes: float
    descriptors: int
    threads: int


def attacked_server(folder: Path, *flags: str) -> ServerProcess:
    """A server with identity models of several datatypes, dims [-1]."""
    for name, datatype in _MODELS.items():
        tensors = f'{{ name: "%s" data_type: {datatype} dims: [ -1 ] }}'
        write_model(
            folder / "models", name, base=f'backend: "identity" input [{tensors % "IN"}] output [{tensors % "OUT"}]'
        )
    return ServerProcess(folder / "models", folder / "log", *FLAGS, *flags)


def holdings(server: ServerProcess) -> Holdings:
    """What the server's process holds now."""
    process = psutil.Process(server.process.pid)
    return Holdings(process.memory_info().rss / 2**20, process.num_fds(), process.num_threads())
