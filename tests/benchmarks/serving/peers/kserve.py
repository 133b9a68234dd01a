"""KServe's Python model server, one worker."""

from pathlib import Path

from tests.benchmarks.serving.peer import Command, Launch, has_environment, make_environment
from tests.benchmarks.serving.repositories import PROGRAMS
from tests.benchmarks.serving.workload import Row, Wire

TITLE = "KServe 0.21"
_LARGEST_BYTES = str(1 << 26)


def install(home: Path) -> None:
    make_environment(home, "kserve", "kserve==0.21.0", "onnxruntime")


def is_installed(home: Path) -> bool:
    return has_environment(home, "kserve")


def wire(row: Row) -> Wire | None:
    return row.wire if row.loader in {"wrk", "h2load"} else None


def command(launch: Launch) -> Command:
    arguments = [
        launch.python("kserve"), str(PROGRAMS / "kserve_server.py"), "--http_port", str(launch.http_port),
        "--grpc_port", str(launch.grpc_port), "--enable_latency_logging", "false", "--access_log_format", "",
        "--grpc_max_receive_message_length", _LARGEST_BYTES, "--grpc_max_send_message_length", _LARGEST_BYTES,
    ]  # fmt: skip
    return Command(arguments, launch.environment())
