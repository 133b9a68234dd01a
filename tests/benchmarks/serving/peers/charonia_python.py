"""Charonia with the very repository that Triton gets: the model in a process of the python backend."""

from pathlib import Path

from tests.benchmarks.serving.peer import Command, Launch
from tests.benchmarks.serving.peers.charonia import serve
from tests.benchmarks.serving.repositories import write_python
from tests.benchmarks.serving.workload import Row, Wire

TITLE = "Charonia, python backend"


def install(home: Path) -> None:
    """Nothing: it is the package beside this benchmark."""


def is_installed(home: Path) -> bool:
    return True


def wire(row: Row) -> Wire | None:
    return row.wire


def command(launch: Launch) -> Command:
    repository = launch.folder / "models"
    write_python(repository, launch.row.network, launch.row.batch)
    environment = launch.environment()
    del environment["PYTHONPATH"]
    return Command(serve(launch, repository), environment)
