"""What a module of `peers` holds: one server, how it is installed, which rows it can run, and its command."""

import importlib
import os
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from tests.benchmarks.serving.repositories import PROGRAMS
from tests.benchmarks.serving.workload import Row, Wire


@dataclass(frozen=True)
class Launch:
    """A start of a server. `folder` is empty and removed at the end; `home` holds what `install` made."""

    row: Row
    http_port: int
    grpc_port: int
    metrics_port: int
    folder: Path
    home: Path

    @property
    def onnx_folder(self) -> Path:
        return self.home / "onnx"

    def python(self, peer: str) -> str:
        """The interpreter of a peer's own environment."""
        return str(self.home / peer / "bin" / "python")

    def environment(self) -> dict[str, str]:
        """What the programs of `programs/` read."""
        network = self.row.network
        return {
            "BENCHMARK_MODEL": network.name,
            "BENCHMARK_BATCH": str(self.row.batch),
            "BENCHMARK_SHAPE": ",".join(map(str, network.shape)),
            "BENCHMARK_ONNX": str(self.onnx_folder),
            "PYTHONPATH": str(PROGRAMS),
            "OMP_NUM_THREADS": "2",
        }


@dataclass(frozen=True)
class Command:
    """What starts a server in the foreground."""

    arguments: list[str]
    environment: dict[str, str]


class Peer(Protocol):
    """The names that a module of `peers` has."""

    TITLE: str

    def install(self, home: Path) -> None:
        """Fetch the server from the package index; does nothing where that is done."""

    def is_installed(self, home: Path) -> bool: ...

    def wire(self, row: Row) -> Wire | None:
        """How it takes the row's tensors; None when it cannot run the row."""

    def command(self, launch: Launch) -> Command: ...


def peer_names() -> list[str]:
    """Every server that this benchmark knows."""
    return sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "peers")]))


def load_peer(name: str) -> Peer:
    """The peer called `name`, one of `peer_names()`."""
    return cast("Peer", importlib.import_module(f"tests.benchmarks.serving.peers.{name}"))


def make_environment(home: Path, name: str, *packages: str) -> Path:
    """A virtual environment of its own for a peer, made once."""
    folder = home / name
    done = folder / ".done"
    if not done.exists():
        python = os.environ.get("BENCHMARK_PYTHON", sys.executable)
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *packages], check=True)
        done.touch()
    return folder


def has_environment(home: Path, name: str) -> bool:
    return (home / name / ".done").exists()
