from pathlib import Path

import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.errors import InternalError, UnavailableError
from charonia_runtime.engine.inspection import Fault, Surroundings, inspect
from charonia_runtime.engine.lifecycle.repository import ModelRepositories
from tests.support.onnx_models import identity
from tests.support.repositories import write_model

LABELS = 'output { name: "LABELS" data_type: TYPE_FP32 dims: 4 label_filename: "labels.txt" }'
WARM = (
    'model_warmup { name: "w" batch_size: 1 inputs { key: "INPUT" value { data_type: TYPE_INT32 dims: 4 '
    'input_data_file: "data" } } }'
)
STATE = (
    'sequence_batching { state { input_name: "S" output_name: "T" data_type: TYPE_INT32 dims: 4 '
    'initial_state { name: "s" data_type: TYPE_INT32 dims: 4 data_file: "state.bin" } } }'
)

ENSEMBLE = """
platform: "ensemble"
input { name: "A" data_type: TYPE_INT32 dims: 4 }
output { name: "B" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling { step {
  model_name: "other" model_version: -1 input_map { key: "INPUT" value: "A" } output_map { key: "OUTPUT" value: "B" }
} }
"""


def faults_of(*repositories: Path) -> list[Fault]:
    return inspect(ModelRepositories(repositories), Surroundings(load_backend, Path("/nowhere")))


def test_a_sound_repository(tmp_path):
    write_model(tmp_path, "a")
    write_model(tmp_path, "b", versions=(1, 2), config="version_policy { all {} }")

    assert faults_of(tmp_path) == []


def test_a_missing_repository():
    with pytest.raises(InternalError, match=r"^failed to stat file /nowhere$"):
        faults_of(Path("/nowhere"))


@pytest.mark.parametrize(
    ("model", "file", "field", "text"),
    [
        ({"config": "nonsense: 1"}, "config.pbtxt", "", "nonsense"),
        ({"config": 'name: "other"'}, "config.pbtxt", "", "unexpected directory name 'simple' for model 'other'"),
        ({"base": "max_batch_size: -1 backend: 'identity'"}, "config.pbtxt", "max_batch_size", "must be non-negative"),
        ({"versions": ()}, "", "version_policy", "at least one version must be available"),
        (
            {"config": "version_policy { specific { versions: [1, 3] } }"},
            "config.pbtxt", "version_policy.specific.versions", "version 3 is specified for model 'simple'",
        ),
        ({"config": "input { name: 'B' dims: 1 }"}, "config.pbtxt", 'input "B"', "must specify 'data_type'"),
        (
            {"config": """dynamic_batching {} parameters {
                key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "none.py" } }"""},
            "config.pbtxt", 'parameters["TRITON_BATCH_STRATEGY_PATH"]', "Batching library path not found: ",
        ),
        ({"base": 'backend: "nothing"'}, "config.pbtxt", "backend", "unable to find backend library"),
        (
            {"config": 'runtime: "other.so"'},
            "config.pbtxt", "runtime", "unable to find backend library 'other.so' for model 'simple', searched:",
        ),
        (
            {"config": 'default_model_filename: "weights"'},
            "1/weights", "default_model_filename", "the model's file is missing",
        ),
        (
            {"config": LABELS.replace("TYPE_FP32", "TYPE_INT32") + "input { name: 'B' data_type: TYPE_INT32 dims: 4 }"},
            "config.pbtxt", "output[1].label_filename", "labels.txt",
        ),
        ({"config": STATE}, "config.pbtxt", "sequence_batching.state.initial_state", "initial_state/state.bin"),
        (
            {"base": ENSEMBLE},
            "config.pbtxt", "ensemble_scheduling.step[0].model_name", "model 'other' is in none of the repositories",
        ),
        ({"config": WARM}, "config.pbtxt", 'model_warmup[0].inputs["INPUT"].input_data_file', "warmup/data"),
    ],
)  # fmt: skip
def test_faults_name_file_and_field(tmp_path, model, file, field, text):
    directory = write_model(tmp_path, "simple", **model)
    (fault,) = faults_of(tmp_path)

    assert (fault.model, fault.file, fault.field) == ("simple", directory / file, field)
    assert text in fault.message


OK_CODE = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
PYTHON = """
backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: 4 }
output { name: "Y" data_type: TYPE_FP32 dims: 4 }
"""
ONNX = """
input { name: "INPUT" data_type: TYPE_FP32 dims: [ -1, 3 ] }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: [ -1, 3 ] }
"""


def write_code(repository: Path, name: str, code: str, config: str = PYTHON) -> Path:
    path = repository / name / "1" / "model.py"
    path.parent.mkdir(parents=True)
    path.write_text(code)
    (repository / name / "config.pbtxt").write_text(config)
    return path


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class TritonPythonModel:\n    def execute(self)\n", "line 2: SyntaxError: expected ':'"),
        ("class MyModel:\n    pass\n", "it has no class TritonPythonModel; its classes are: MyModel"),
        (f"import sklearnx\n{OK_CODE}", "line 1: No module named 'sklearnx' (install the package of 'sklearnx'"),
        (
            f"import pb_utils\n{OK_CODE}",
            "line 1: No module named 'pb_utils' (write: import triton_python_backend_utils",
        ),
        (f"x = '\0'\n{OK_CODE}", None),
        (OK_CODE, None),
        ("import triton_python_backend_utils as pb_utils\nfrom own import *\n", None),
        (f"from own.deep import x\nfrom .own import y\n{OK_CODE}", None),
        ("try:\n    import sklearnx\nexcept ImportError:\n    pass\nTritonPythonModel = object\n", None),
        ("import os\nos._exit(3)\nclass TritonPythonModel: pass\n", None),
    ],
)
def test_mistakes_in_code_are_found_without_running_it(tmp_path, code, message):
    path = write_code(tmp_path, "m", code.replace("\0", "\\0"))
    (path.parent / "own").mkdir()

    faults = faults_of(tmp_path)

    assert [(fault.file, fault.message.startswith(message or "")) for fault in faults] == [(path, True)] * bool(message)


def test_code_that_runs_elsewhere_may_import_anything(tmp_path):
    elsewhere = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/nowhere" } }'
    write_code(tmp_path, "m", f"import sklearnx\n{OK_CODE}", PYTHON + elsewhere)

    assert faults_of(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        (("", ""), None, ""),
        (("3 ]", "4 ]"), 'dims of "INPUT"', "dimension 1 is 3 in the model, 4 in config.pbtxt"),
        (('"INPUT"', '"IN"'), "", "unexpected inference input 'IN', allowed inputs are: INPUT"),
        (("TYPE_FP32", "TYPE_INT64"), "", "configuration expects datatype TYPE_INT64 for input 'INPUT'"),
    ],
)
def test_onnx_models_are_compared_with_their_configurations(tmp_path, change, field, text):
    version = tmp_path / "m" / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").write_bytes(identity(dims=("n", 3)))
    (version.parent / "config.pbtxt").write_text(ONNX.replace(*change, 1) if change[0] else ONNX)

    faults = faults_of(tmp_path)

    assert [(fault.field, text in fault.message) for fault in faults] == [(field, True)] * (field is not None)


def test_gpus_that_are_not_there(tmp_path):
    write_code(tmp_path, "m", OK_CODE, PYTHON + "instance_group { kind: KIND_GPU }")

    (fault,) = faults_of(tmp_path)

    assert (fault.field, "say KIND_CPU or KIND_AUTO" in fault.message) == ("instance_group", True)
    surroundings = Surroundings(load_backend, Path("/nowhere"), gpus=(0,))
    assert inspect(ModelRepositories([tmp_path]), surroundings) == []


def test_a_batching_strategy_needs_its_flag(tmp_path):
    write_model(tmp_path, "m", config="dynamic_batching {}")
    (tmp_path / "m/batchstrategy.py").write_text("raise AssertionError('code of the model ran')")

    (fault,) = faults_of(tmp_path)

    assert "start the server with --allow-batch-strategies=true" in fault.message
    surroundings = Surroundings(load_backend, Path("/nowhere"), allow_batch_strategies=True)
    assert inspect(ModelRepositories([tmp_path]), surroundings) == []


def test_a_package_that_is_missing(tmp_path):
    def load(name):
        class Missing(load_backend(name)):
            def __init__(self, files):
                raise UnavailableError("the python backend needs the numpy package: pip install numpy")

        return Missing

    write_code(tmp_path, "m", OK_CODE)

    (fault,) = inspect(ModelRepositories([tmp_path]), Surroundings(load, Path("/nowhere")))

    assert fault.message == "the python backend needs the numpy package: pip install numpy"


def test_steps_that_name_no_tensor_of_their_model(tmp_path):
    write_code(tmp_path, "other", OK_CODE, PYTHON)
    (tmp_path / "both" / "1").mkdir(parents=True)
    ensemble = ENSEMBLE.replace("INT32", "FP32").replace('"INPUT"', '"X"').replace('"OUTPUT"', '"Y"')
    (tmp_path / "both" / "config.pbtxt").write_text(ensemble)
    assert faults_of(tmp_path) == []

    (tmp_path / "both" / "config.pbtxt").write_text(ensemble.replace('"X"', '"x"'))

    (fault,) = faults_of(tmp_path)
    assert (fault.model, fault.field) == ("both", "ensemble_scheduling.step")
    assert "ensemble tensor A is mapping to non-existing input x in model other" in fault.message


def test_an_empty_repository_and_files_in_wrong_places(tmp_path):
    (empty,) = faults_of(tmp_path)
    assert (empty.model, empty.file) == ("", tmp_path)
    write_model(tmp_path, "simple")
    (tmp_path / "net.onnx").write_bytes(b"")
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")

    loose, pointer = faults_of(tmp_path)

    assert "move it to" in loose.message
    assert (pointer.file, "Git LFS" in pointer.message) == (tmp_path / "m" / "1", True)


def test_a_directory_that_is_no_version(tmp_path):
    directory = write_model(tmp_path, "simple", versions=(1, "v2"))

    assert faults_of(tmp_path) == [
        Fault("simple", directory, "", "ignore version directory 'v2' which fails to convert to integral number")
    ]


def test_a_model_in_two_repositories(tmp_path):
    places = [write_model(tmp_path / repository, "simple") for repository in ("a", "b")]

    assert [(fault.file, fault.message) for fault in faults_of(tmp_path / "a", tmp_path / "b")] == [
        (place, "model appears in two or more repositories") for place in places
    ]


def test_libraries_of_operators_are_not_loaded(tmp_path):
    version = tmp_path / "m" / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").write_bytes(identity(dims=("n", 3)))
    (version.parent / "config.pbtxt").write_text(f'{ONNX} model_operations {{ op_library_filename: "/nowhere.so" }}')

    assert faults_of(tmp_path) == []
