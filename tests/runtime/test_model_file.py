"""Which file of a version is loaded."""

from pathlib import Path

import pytest

from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind
from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.model_file import find_model_file
from tests.support.configs import a_config


def found(directory: Path, inside: str = "", **changes: object) -> Path:
    files = ModelFiles("simple", 1, directory, directory)
    config = a_config(**changes)
    return find_model_file(files, config, InstanceKind.CPU, 0, "model.any", inside=inside)


def test_the_backend_has_a_default(tmp_path: Path) -> None:
    (tmp_path / "model.any").touch()
    assert found(tmp_path) == tmp_path / "model.any"


def test_the_configuration_may_name_another(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    assert found(tmp_path, default_model_filename="other") == tmp_path / "other"


def test_files_for_gpus_are_not_for_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "model.any").touch()
    assert found(tmp_path, cc_model_filenames={"": "gpu", "9.0": "gpu"}) == tmp_path / "model.any"


def test_a_folder_may_hold_the_file(tmp_path: Path) -> None:
    (tmp_path / "model.any").mkdir()
    (tmp_path / "model.any" / "part").touch()
    assert found(tmp_path, inside="part") == tmp_path / "model.any" / "part"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        found(tmp_path)
    assert caught.value.message == f"unable to find '{tmp_path}/model.any' for model instance 'simple'"
