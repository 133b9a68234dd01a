"""Backends that are not ours: in a folder of the operator's, or offered by an installed package."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from tests.support.backend_cases import scale
from tests.support.batches import a_batch
from tests.support.configs import a_config, a_tensor
from tests.support.loaded_models import LoadedModel
from tests.support.processes import ServerProcess

WHOLE = """
from charonia_runtime.core.backend import BackendTraits

class Backend:
    traits = BackendTraits()
    label = "LABEL"
    def auto_complete(self, config): ...
    def load(self, config): ...
    def create_instance(self, placement): ...
    def close(self): ...
"""


def write_backend(directory: Path, name: str, code: str, **neighbours: str) -> Path:
    folder = directory / name
    folder.mkdir(parents=True)
    (folder / "backend.py").write_text(code)
    for neighbour, text in neighbours.items():
        (folder / f"{neighbour}.py").write_text(text)
    return directory


def offer(site: Path, package: str, **backends: str) -> None:
    """What pip leaves of a package that offers backends, beside its code."""
    information = site / f"{package}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in backends.items()]
    (information / "entry_points.txt").write_text("\n".join(["[charonia.backends]", *lines, ""]))


class TestFolders:
    def test_a_folder_with_a_backend(self, tmp_path: Path) -> None:
        write_backend(tmp_path, "mine", WHOLE)
        assert load_backend("mine", tmp_path).label == "LABEL"  # type: ignore[attr-defined]
        assert load_backend("mine", tmp_path) is load_backend("mine", tmp_path)

    def test_it_may_import_its_neighbours(self, tmp_path: Path) -> None:
        code = WHOLE.replace('"LABEL"', "weights.LABEL").replace("class", "from . import weights\n\nclass", 1)
        for version in ("one", "two"):
            write_backend(tmp_path / version, "mine.best", code, weights=f"LABEL = '{version}'")
        for version in ("one", "two", "one"):
            assert load_backend("mine.best", tmp_path / version).label == version  # type: ignore[attr-defined]

    def test_it_comes_before_ours(self, tmp_path: Path) -> None:
        write_backend(tmp_path, "identity", WHOLE)
        assert load_backend("identity", tmp_path).label == "LABEL"  # type: ignore[attr-defined]
        assert not hasattr(load_backend("identity"), "label")

    @pytest.mark.parametrize(
        ("code", "text"),
        [
            ("import no_such_framework", "No module named 'no_such_framework'"),
            ("raise ValueError", "ValueError"),
            ("Backend = 1", "holds no class 'Backend' with the methods auto_complete, load, create_instance, close"),
            (WHOLE.replace("close", "shut"), "holds no class 'Backend' with the methods"),
            (WHOLE.replace("traits =", "facts ="), "has no BackendTraits 'traits'"),
        ],
    )
    def test_what_cannot_be_used(self, code: str, text: str, tmp_path: Path) -> None:
        write_backend(tmp_path, "mine", code)
        with pytest.raises(InternalError) as caught:
            load_backend("mine", tmp_path)
        assert caught.value.message.startswith("unable to load backend 'mine'")
        assert f"{tmp_path}/mine/backend.py" in caught.value.message
        assert text in caught.value.message

    @pytest.mark.parametrize("name", ["", ".", "..", "mine/inner", "other"])
    def test_names_that_are_no_folder_of_it(self, name: str, tmp_path: Path) -> None:
        write_backend(tmp_path, "mine", WHOLE)
        write_backend(tmp_path / "mine", "inner", WHOLE)
        (tmp_path / "backend.py").write_text(WHOLE)
        with pytest.raises(InvalidArgumentError, match="unable to find backend library"):
            load_backend(name, tmp_path / "mine" if name == ".." else tmp_path)


class TestPackages:
    @pytest.fixture(autouse=True)
    def site(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "offered_backends.py").write_text(WHOLE)
        monkeypatch.syspath_prepend(str(tmp_path))
        return tmp_path

    def test_an_entry_point(self, site: Path) -> None:
        offer(site, "other-backends", mine="offered_backends:Backend")
        assert load_backend("mine").label == "LABEL"  # type: ignore[attr-defined]

    def test_ours_come_before(self, site: Path) -> None:
        offer(site, "other-backends", identity="offered_backends:Backend")
        assert not hasattr(load_backend("identity"), "label")

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("no_such_module:Backend", "No module named 'no_such_module'"),
            ("offered_backends:Nothing", "has no attribute 'Nothing'"),
            ("offered_backends", "entry point 'offered_backends' holds no class 'Backend'"),
        ],
    )
    def test_what_cannot_be_used(self, value: str, text: str, site: Path) -> None:
        offer(site, "other-backends", mine=value)
        with pytest.raises(InternalError) as caught:
            load_backend("mine")
        assert text in caught.value.message

    def test_several_packages_with_one_name(self, site: Path) -> None:
        offer(site, "some-backends", mine="offered_backends:Backend")
        offer(site, "more-backends", mine="offered_backends:Backend")
        with pytest.raises(InternalError, match=r"several installed packages offer it: more-backends, some-backends$"):
            load_backend("mine")


async def test_the_example_completes_configurations(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.json").write_text(json.dumps({"factor": [1, 2, 3]}))
    bare = a_config("m", backend="scale", max_batch_size=0, inputs=(), outputs=())
    async with LoadedModel(load_backend("scale", scale.DIRECTORY), tmp_path, bare) as model:
        assert model.config.inputs == (a_tensor("INPUT0", DataType.FP32, 3),)
        batch = await model.execute(a_batch(model.config, {"INPUT0": np.ones((2, 3), np.float32)}))
    np.testing.assert_array_equal(batch.arrays_of(0)["OUTPUT0"], [[1, 2, 3], [1, 2, 3]])


def test_the_example_refuses_what_it_cannot_serve(tmp_path: Path) -> None:
    config = a_config("m", backend="scale", outputs=())
    with pytest.raises(InvalidArgumentError, match="as many outputs as inputs"):
        load_backend("scale", scale.DIRECTORY)(ModelFiles("m", 1, tmp_path, tmp_path / "1")).load(config)


SCRIPTED = """
import json
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.factor = int(json.loads(args["backend_config"])["factor"])

    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", array * self.factor)]) for array in arrays]
"""
SCRIPTED_CONFIG = """
backend: "scripted"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
"""


def test_both_kinds_are_served_and_get_their_settings(tmp_path: Path) -> None:
    shutil.copytree(scale.DIRECTORY, tmp_path / "backends")
    (tmp_path / "backends" / "scripted").mkdir()
    (tmp_path / "backends" / "scripted" / "model.py").write_text(SCRIPTED)
    for name in ("tripled.scale", "fivefold"):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
    (tmp_path / "models" / "tripled.scale" / "1" / "model.scale").write_text("{}")
    (tmp_path / "models" / "fivefold" / "config.pbtxt").write_text(SCRIPTED_CONFIG)
    flags = (
        f"--backend-directory={tmp_path}/backends",
        "--backend-config=scale,default-factor=3",
        "--backend-config=scripted,factor=5",
    )
    request = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
    with ServerProcess(tmp_path / "models", tmp_path / "log", *flags) as server:
        for name, expected in (("tripled.scale", [3, 6]), ("fivefold", [5, 10])):
            status, body = server.request("POST", f"/v2/models/{name}/infer", json.dumps(request).encode())
            assert status == 200, body
            assert json.loads(body)["outputs"][0]["data"] == expected
