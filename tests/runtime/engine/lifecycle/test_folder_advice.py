"""What lies in a folder tells what to do when its model cannot be loaded."""

from pathlib import Path

import pytest

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.engine.error_advice import advise_on_error
from charonia_runtime.engine.lifecycle.folder_advice import (
    advise_on_model,
    advise_on_no_version,
    advise_on_repository,
    advise_on_version,
)
from charonia_runtime.engine.lifecycle.repository import ModelRepositories


def put(repository: Path, *paths: str) -> None:
    for path in paths:
        place = repository / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            place.mkdir()
        else:
            place.write_text("x")


@pytest.mark.parametrize(
    ("paths", "advice"),
    [
        (["m/1/mymodel.onnx"], "holds 'mymodel.onnx': rename it to 'model.onnx'"),
        (["m/1/model.onnx", "m/1/config.pbtxt"], "Move '{}/m/1/config.pbtxt' to '{}/m'"),
        (["m/model.onnx"], "Move '{}/m/model.onnx' to the folder of a version: '{}/m/1/model.onnx'"),
        (["m/v2/model.onnx"], "Rename '{}/m/v2' to '2'"),
        (["config.pbtxt", "m/model.onnx"], "'{}' is the folder of a model, not a model repository"),
        (
            ["m/1/weights.bin"],
            "'{}/m/1' holds 'weights.bin', none of the files that tell a backend (model.savedmodel, ",
        ),
        (["m/1/.hidden"], "'{}/m/1' is empty, none of the files"),
        (["m/1/model.pkl"], "'{}/m/1/model.pkl' is a Python pickle: convert it to ONNX"),
        (["m/labels.txt"], "A model needs a folder for each version, such as '{}/m/1'"),
    ],
)
def test_a_model_that_nothing_tells_of(tmp_path: Path, paths: list[str], advice: str) -> None:
    put(tmp_path, *paths)

    entry = ModelRepositories([tmp_path]).read(tmp_path / "m")

    assert advice.replace("{}", str(tmp_path)) in advise_on_model(entry)


def test_a_model_whose_policy_selects_no_version(tmp_path: Path) -> None:
    put(tmp_path, "m/1/model.onnx", "m/3/model.onnx")

    entry = ModelRepositories([tmp_path]).read(tmp_path / "m")

    assert advise_on_no_version(entry) == f"'{tmp_path}/m' has the versions 1, 3"


@pytest.mark.parametrize(
    ("backend", "expected", "paths", "advice"),
    [
        ("python", "model.py", ["1/mymodel.py"], "'{}/1' holds 'mymodel.py': rename it to 'model.py', or say in "),
        ("onnxruntime", "model.onnx", ["1/other.bin"], "'{}/1' holds 'other.bin'"),
        ("onnxruntime", "model.onnx", ["1/.x"], "'{}/1' is empty: put 'model.onnx' there"),
        ("fil", "", ["1/model.pkl"], "'{}/1/model.pkl' is a Python pickle: fil loads"),
        ("onnxruntime", "model.onnx", ["1/model.onnx"], ""),
        ("python", "model.py", ["1/model.py", "1/weights.pkl"], ""),
        ("mine", "", ["1/anything"], ""),
    ],
)
def test_a_version_that_does_not_load(
    tmp_path: Path, backend: str, expected: str, paths: list[str], advice: str
) -> None:
    put(tmp_path, *paths)
    config = ModelConfig("m", backend=backend, default_model_filename=expected)

    told = advise_on_version(tmp_path / "1", config)

    assert told.startswith(advice.replace("{}", str(tmp_path)))
    assert bool(told) == bool(advice)


@pytest.mark.parametrize(
    ("paths", "advice"),
    [
        ([".keep"], ["model repository '{}' has no models: each is a folder with a folder for each version, such as "]),
        (["config.pbtxt", "1/model.py"], ["'{}' is the folder of a model, not a model repository"]),
        (["1/model.onnx"], ["'{}' is the folder of a model, not a model repository"]),
        (
            ["m/1/model.onnx", "net.onnx", "README.md"],
            ["'{}/net.onnx' is not served: move it to '{}/net/1/model.onnx'"],
        ),
        (["m/1/model.onnx"], []),
        (["1/1/model.onnx"], []),
    ],
)
def test_repositories(tmp_path: Path, paths: list[str], advice: list[str]) -> None:
    put(tmp_path, *paths)

    told = advise_on_repository(tmp_path)

    assert len(told) == len(advice)
    assert all(one.startswith(start.replace("{}", str(tmp_path))) for one, start in zip(told, advice, strict=True))


def test_a_configuration_with_another_name(tmp_path: Path) -> None:
    put(tmp_path, "m/config.yaml", "m/1/model.py", "n/config.json", "n/config.pbtxt", "n/1/model.py")
    repositories = ModelRepositories([tmp_path])

    (told,) = repositories.read(tmp_path / "m").ignored

    assert told.startswith(f"'{tmp_path}/m/config.yaml' is not read: the configuration of a model is ")
    assert repositories.read(tmp_path / "n").ignored == ()


def test_errors_that_clients_know_from_triton() -> None:
    assert "import triton_python_backend_utils as pb_utils" in advise_on_error("No module named 'pb_utils'")
    assert "package of 'sklearnx'" in advise_on_error("ModuleNotFoundError: No module named 'sklearnx'")
    assert "onnxruntime_onnx" in advise_on_error("unexpected platform type 'onnx' for m")
    assert advise_on_error("anything else {}") == ""
    assert advise_on_error("the fil backend needs the treelite package (No module named 'treelite')") == ""
