"""mosec: a Rust front end and one Python worker behind a Unix socket; HTTP and raw bytes only."""

from pathlib import Path

from tests.benchmarks.serving.peer import Command, Launch, has_environment, make_environment
from tests.benchmarks.serving.repositories import PROGRAMS
from tests.benchmarks.serving.workload import Row, Wire

TITLE = "mosec 0.9.8"


def install(home: Path) -> None:
    make_environment(home, "mosec", "mosec==0.9.8", "numpy", "onnxruntime")


def is_installed(home: Path) -> bool:
    return has_environment(home, "mosec")


def wire(row: Row) -> Wire | None:
    return Wire.RAW if row.loader == "wrk" and row.wire is Wire.V2_BINARY else None


def command(launch: Launch) -> Command:
    arguments = [
        launch.python("mosec"), str(PROGRAMS / "mosec_server.py"), "--address", "127.0.0.1",
        "--port", str(launch.http_port), "--path", str(launch.folder / "sockets"), "--log-level", "warning",
        "--timeout", "60000", "--max-request-size", str(1 << 26),
    ]  # fmt: skip
    return Command(arguments, launch.environment())
