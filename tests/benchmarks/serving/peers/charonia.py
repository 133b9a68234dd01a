"""Charonia with the model in its own process: `backend: "identity"` and `backend: "onnxruntime"`."""

import os
import shlex
import sys
from pathlib import Path

from tests.benchmarks.serving.peer import Command, Launch
from tests.benchmarks.serving.repositories import write_native
from tests.benchmarks.serving.workload import Row, Wire

TITLE = "Charonia"


def install(home: Path) -> None:
    """Nothing: it is the package beside this benchmark."""


def is_installed(home: Path) -> bool:
    return True


def wire(row: Row) -> Wire | None:
    return row.wire


def command(launch: Launch) -> Command:
    repository = launch.folder / "models"
    write_native(repository, launch.row.network, launch.row.batch, launch.onnx_folder)
    return Command(serve(launch, repository), {})


def serve(launch: Launch, repository: Path) -> list[str]:
    """The command line. The environment's CHARONIA names another command, CHARONIA_FLAGS adds flags."""
    own = [sys.executable, "-m", "charonia_runtime"]
    return [
        *(shlex.split(os.environ["CHARONIA"]) if "CHARONIA" in os.environ else own),
        "serve",
        f"--model-repository={repository}",
        f"--http-port={launch.http_port}",
        f"--grpc-port={launch.grpc_port}",
        f"--metrics-port={launch.metrics_port}",
        *shlex.split(os.environ.get("CHARONIA_FLAGS", "")),
    ]
