"""Charonia with the very repository that Triton gets: the model in a process of the python backend."""

from tests.benchmarks.serving.peer import Command, Launch
from tests.benchmarks.serving.peers.charonia import install, is_installed, serve, wire
from tests.benchmarks.serving.repositories import write_python

TITLE = "Charonia, python backend"
__all__ = ["TITLE", "command", "install", "is_installed", "wire"]


def command(launch: Launch) -> Command:
    repository = launch.folder / "models"
    write_python(repository, launch.row.network, launch.row.batch)
    environment = launch.environment()
    del environment["PYTHONPATH"]
    return Command(serve(launch, repository), environment)
