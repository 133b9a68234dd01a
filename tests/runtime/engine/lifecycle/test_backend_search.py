from dataclasses import replace
from pathlib import Path

import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnsupportedError
from charonia_runtime.engine.lifecycle.backend_search import find_backend
from charonia_runtime.protocols.model_config import complete
from tests.support.configs import a_config

UNKNOWN = "unable to find backend library for backend 'mine', try specifying runtime on the model configuration."


class Known:
    traits = BackendTraits()


class Python:
    pass


class BringsPython:
    traits = BackendTraits(python_runtime=True)


def load(name):
    match name:
        case "identity":
            return Known
        case "python":
            return Python
        case "eager":
            return BringsPython
        case "broken":
            raise ImportError("No module named 'framework'")
        case _:
            raise InvalidArgumentError(
                f"unable to find backend library for backend '{name}', try specifying runtime on the model "
                "configuration."
            )


@pytest.fixture
def backends(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.py").write_text("")
    return tmp_path


def find(backends, backend, runtime=""):
    config = complete(replace(a_config(), backend=backend, runtime=runtime))
    return find_backend(config, ModelFiles("m", 1, Path("/r/m"), Path("/r/m/1")), backends, load)


@pytest.mark.parametrize("runtime", ["", "libtriton_identity.so"])
def test_our_own(backends, runtime):
    backend, config = find(backends, "identity", runtime)

    assert (backend, config.runtime) == (Known, runtime)


@pytest.mark.parametrize("runtime", ["", "model.py"])
def test_one_of_the_users(backends, runtime):
    backend, config = find(backends, "mine", runtime)

    assert (backend, config.runtime, config.document["runtime"]) == (Python, "model.py", "model.py")


def test_one_of_the_users_replaces_ours_of_the_same_name(backends):
    (backends / "identity").mkdir()
    (backends / "identity" / "model.py").write_text("")

    backend, config = find(backends, "identity")

    assert (backend, config.runtime) == (Python, "model.py")


@pytest.mark.parametrize("other", ["libtriton_identity.so", "backend.py"])
def test_a_model_py_that_belongs_to_another_backend_replaces_nothing(backends, other):
    """NVIDIA's image has `pytorch/model.py` beside `pytorch/libtriton_pytorch.so`, for `runtime: "model.py"` only."""
    (backends / "identity").mkdir()
    for name in ("model.py", other):
        (backends / "identity" / name).write_text("")

    assert find(backends, "identity")[0] is Known
    assert find(backends, "identity", "model.py")[0] is Python


def test_the_python_backend_cannot_be_replaced(backends):
    (backends / "python").mkdir()
    (backends / "python" / "model.py").write_text("")

    assert find(backends, "python")[1].runtime == ""


def test_one_of_ours_that_is_written_in_python_too(backends):
    assert find(backends, "eager")[0] is BringsPython

    backend, config = find(backends, "eager", "model.py")

    assert (backend, config.runtime) == (Python, "model.py")


def test_one_of_ours_that_is_not(backends):
    with pytest.raises(InvalidArgumentError, match=r"^unable to find Python backend based backend library"):
        find(backends, "identity", "model.py")


def test_unknown_ones(tmp_path):
    with pytest.raises(InvalidArgumentError) as caught:
        find(tmp_path, "mine")
    assert caught.value.message == UNKNOWN

    with pytest.raises(InvalidArgumentError) as caught:
        find(tmp_path, "mine", "model.py")
    assert caught.value.message == (
        "unable to find Python backend based backend library 'model.py' for model 'm', "
        f"searched: '{tmp_path}/mine/model.py'"
    )


def test_unknown_runtimes(backends):
    with pytest.raises(InvalidArgumentError) as caught:
        find(backends, "identity", "libother.so")
    assert caught.value.message == (
        f"unable to find backend library 'libother.so' for model 'm', searched: '/r/m/1' '/r/m' '{backends}/identity' "
    )

    with pytest.raises(InvalidArgumentError) as caught:
        find(backends, "identity", "../libother.so")
    assert caught.value.message == (
        f"backend library name '../libother.so' escapes backend directory '{backends}/identity', for model 'm', check "
        "model config runtime field"
    )


def test_names_that_are_paths_find_nothing(backends):
    (backends / "model.py").write_text("")

    with pytest.raises(InvalidArgumentError, match=r"^unable to find backend library for backend '\.\.'"):
        find(backends / "mine", "..")


def test_a_backend_whose_library_is_missing(backends):
    with pytest.raises(InternalError, match=r"^unable to load backend 'broken': No module named 'framework'$"):
        find(backends, "broken")


@pytest.mark.parametrize(("runtime", "library"), [("", "libtriton_mine.so"), ("libother.so", "libother.so")])
@pytest.mark.parametrize("folder", ["backends/mine", "m", "m/1"])
def test_backends_of_triton_s_c_api(tmp_path, folder, runtime, library):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / folder / library).touch()
    config = complete(replace(a_config(), backend="mine", runtime=runtime))
    files = ModelFiles("m", 1, tmp_path / "m", tmp_path / "m" / "1")

    with pytest.raises(UnsupportedError) as caught:
        find_backend(config, files, tmp_path / "backends", load)

    assert caught.value.message == (
        f"backend 'mine' of model 'm' is a shared library for Triton's C API, '{tmp_path}/{folder}/{library}', which "
        f"needs Triton's own process. Write it in Python, as '{tmp_path}/backends/mine/backend.py' with a class "
        f"Backend or as '{tmp_path}/backends/mine/model.py' with a class TritonPythonModel, or serve this model with "
        "Triton"
    )


def test_a_library_beside_one_of_ours_does_not_matter(tmp_path):
    (tmp_path / "identity").mkdir()
    (tmp_path / "identity" / "libtriton_identity.so").touch()

    assert find(tmp_path, "identity")[0] is Known


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("pytohn", "python"),
        ("ONNXRuntime", "onnxruntime"),
        ("onnx", "onnxruntime"),
        ("torch", "pytorch"),
        ("tf", "tensorflow"),
    ],
)
def test_names_of_backends_that_are_nearly_right(given, meant):
    with pytest.raises(InvalidArgumentError, match=f"Did you mean '{meant}'\\?$"):
        load_backend(given)


def test_names_that_resemble_none():
    with pytest.raises(InvalidArgumentError, match=r"on the model configuration\.$"):
        load_backend("nothing")
