"""Charonia with gRPC on Google's library instead of on its own HTTP/2; gRPC rows only."""

from pathlib import Path

from tests.benchmarks.serving.peer import Command, Launch
from tests.benchmarks.serving.peers import charonia
from tests.benchmarks.serving.workload import Row, Wire

TITLE = "Charonia, --grpc-transport=grpcio"


def install(home: Path) -> None:
    """Nothing: it is the package beside this benchmark."""


def is_installed(home: Path) -> bool:
    return True


def wire(row: Row) -> Wire | None:
    return row.wire if row.name.endswith("-grpc") else None


def command(launch: Launch) -> Command:
    plain = charonia.command(launch)
    return Command([*plain.arguments, "--grpc-transport=grpcio"], plain.environment)
