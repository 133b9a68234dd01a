"""A repository without any `config.pbtxt`: served, and its configurations printed, by every backend that is installed."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from charonia_runtime.backends import backend_names
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.protocols.model_config import complete, parse_text
from tests.support.bare_models import OWN_BACKENDS, WRITERS
from tests.support.frameworks import is_installed
from tests.support.processes import ServerProcess, charonia

TELL_NOTHING = {"identity", "tensorrt"}
"""The former has no files, the latter is tested where there are GPUs."""
SAME = (
    "backend",
    "platform",
    "max_batch_size",
    "input",
    "output",
    "parameters",
    "dynamic_batching",
    "sequence_batching",
)


def library_of(backend: str) -> str:
    library: str = importlib.import_module(f"tests.support.backend_cases.{backend}").LIBRARY
    return library


PRESENT = [name for name in WRITERS if not library_of(name) or is_installed(library_of(name))]


def test_every_backend_is_here() -> None:
    assert set(backend_names()) <= WRITERS.keys() | TELL_NOTHING


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    for backend in PRESENT:
        name, write = WRITERS[backend]
        write(folder / name)
    return folder


@pytest.fixture(scope="module")
def server(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("served") / "log"
    with ServerProcess(repository, log, f"--backend-directory={OWN_BACKENDS}", wait_seconds=300) as process:
        yield process


@pytest.fixture(scope="module")
def printed(repository: Path) -> dict[str, bytes]:
    """What `charonia check --print-config` prints of each model."""
    done = charonia("check", str(repository), "--print-config", f"--backend-directory={OWN_BACKENDS}", timeout=300)
    assert done.returncode == 0, done.stderr
    parts = ["#" + part for part in done.stdout.split("\n# ")]
    return {Path(part.splitlines()[0]).parent.name: part.encode() for part in parts}


@pytest.fixture(params=WRITERS)
def model(request: pytest.FixtureRequest) -> str:
    if request.param not in PRESENT:
        pytest.skip(f"the package {library_of(request.param)} is not installed")
    return WRITERS[request.param][0]


def configuration(server: ServerProcess, model: str) -> dict[str, Any]:
    status, body = server.get(f"/v2/models/{model}/config")
    assert status == 200, body
    document: dict[str, Any] = json.loads(body)
    return document


@pytest.mark.timeout(600)
def test_it_is_served(model: str, server: ServerProcess) -> None:
    config = configuration(server, model)
    assert config["max_batch_size"] > 1
    inputs = []
    for spec in config["input"]:
        shape = [2, *(3 if int(size) == -1 else int(size) for size in spec["dims"])]
        datatype = DataType.from_config(spec["data_type"])
        data = np.ones(shape, datatype.numpy_dtype).reshape(-1).tolist()
        inputs.append({"name": spec["name"], "datatype": datatype.wire_name, "shape": shape, "data": data})

    status, body = server.request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": inputs}).encode())

    assert status == 200, body
    outputs = json.loads(body)["outputs"]
    assert [output["name"] for output in outputs] == [spec["name"] for spec in config["output"]]
    assert all(output["shape"][0] == 2 for output in outputs)


@pytest.mark.timeout(600)
def test_what_is_printed_is_what_is_served(model: str, server: ServerProcess, printed: dict[str, bytes]) -> None:
    served = configuration(server, model)
    document = json.loads(json.dumps(complete(parse_text(printed[model], "printed")).document, default=list))
    assert {name: document.get(name) for name in SAME} == {name: served.get(name) for name in SAME}
