"""MLServer with the model in its own process; over HTTP it takes tensors as JSON only."""

import json
from pathlib import Path

from tests.benchmarks.serving.peer import Command, Launch, has_environment, make_environment
from tests.benchmarks.serving.workload import Row, Wire

TITLE = "MLServer 1.7.1"
_LARGEST_BYTES = 1 << 26


def install(home: Path) -> None:
    make_environment(home, "mlserver", "mlserver==1.7.1", "onnxruntime", "uvloop<0.22", "httptools")


def is_installed(home: Path) -> bool:
    return has_environment(home, "mlserver")


def wire(row: Row) -> Wire | None:
    if row.loader == "h2load":
        return Wire.V2_BINARY
    return Wire.V2_JSON if row.loader == "wrk" else None


def command(launch: Launch) -> Command:
    folder = launch.folder / "models"
    folder.mkdir()
    settings = {
        "http_port": launch.http_port, "grpc_port": launch.grpc_port, "metrics_port": launch.metrics_port,
        "host": "127.0.0.1", "parallel_workers": 0, "debug": False, "grpc_max_message_length": _LARGEST_BYTES,
    }  # fmt: skip
    model: dict[str, object] = {
        "name": launch.row.network.name, "implementation": "mlserver_runtime.Runtime", "parameters": {"version": "1"},
    }  # fmt: skip
    if launch.row.batch:
        model |= {"max_batch_size": launch.row.batch, "max_batch_time": 0.001}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "model-settings.json").write_text(json.dumps(model))
    return Command([str(launch.home / "mlserver" / "bin" / "mlserver"), "start", str(folder)], launch.environment())
