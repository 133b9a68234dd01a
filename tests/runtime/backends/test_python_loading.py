"""Loading: configurations that models complete, errors that clients see, interpreters, the model's life."""

import json
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.backends.python import Backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InternalError, UnsupportedError
from charonia_runtime.core.scheduling import Direct, DynamicBatching, SequenceBatching
from charonia_runtime.protocols.model_config import complete
from tests.support.batches import a_batch
from tests.support.configs import a_tensor
from tests.support.python_models import ECHO, HEAD, PythonModel, an_echo_config, write_model

COMPLETE = """
    @staticmethod
    def auto_complete_config(config):
        {statements}
        return config
"""


def completed(directory: Path, statements: str, config: ModelConfig | None = None) -> ModelConfig:
    """What `auto_complete` makes of `config`, empty unless given."""
    write_model(directory, COMPLETE.format(statements=statements))
    backend = Backend(ModelFiles("echo", 1, directory, directory / "1"))
    try:
        return backend.auto_complete(config or complete(ModelConfig("echo", backend="python")))
    finally:
        backend.close()


def test_a_model_completes_its_configuration(tmp_path: Path) -> None:
    config = completed(
        tmp_path,
        "config.set_max_batch_size(4);"
        "config.add_input({'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': [2, -1], 'optional': True});"
        "config.add_output({'name': 'OUT', 'data_type': 'TYPE_STRING', 'dims': [1]});"
        "config.set_dynamic_batching();"
        "config.set_model_transaction_policy({'decoupled': True});"
        "config.as_dict()['backend'] = 'ignored'",
    )
    assert config.max_batch_size == 4
    assert config.inputs == (a_tensor("IN", DataType.FP32, 2, -1, optional=True),)
    assert config.outputs == (a_tensor("OUT", DataType.BYTES, 1),)
    assert isinstance(config.scheduling, DynamicBatching)
    assert config.decoupled
    assert config.backend == "python"


def test_a_single_dimension_may_be_a_number(tmp_path: Path) -> None:
    config = completed(tmp_path, "config.add_input({'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': 3})")
    assert config.inputs == (a_tensor("IN", DataType.FP32, 3),)


def test_a_policy_that_is_configured_is_not_changed(tmp_path: Path) -> None:
    document = {"name": "echo", "model_transaction_policy": {"decoupled": False}}
    with pytest.raises(InternalError, match="already set to 'False'"):
        completed(
            tmp_path,
            "config.set_model_transaction_policy({'decoupled': True})",
            ModelConfig("echo", backend="python", document=document),
        )


def test_what_is_configured_stays(tmp_path: Path) -> None:
    configured = an_echo_config(
        max_batch_size=2, inputs=(a_tensor("IN", DataType.FP32, 4, reshape=(2, 2)),), scheduling=DynamicBatching((1, 2))
    )
    statements = (
        "config.set_max_batch_size(8); config.set_dynamic_batching();"
        "config.add_input({'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': [4]});"
        "config.add_output({'name': 'MORE', 'data_type': 'TYPE_FP32', 'dims': [4]})"
    )
    config = completed(tmp_path, statements, configured)
    assert config.max_batch_size == 8
    assert config.inputs == configured.inputs
    assert [spec.name for spec in config.outputs] == ["OUT", "MORE"]
    assert config.scheduling == configured.scheduling


def test_a_completion_that_makes_no_sense_is_dropped(tmp_path: Path) -> None:
    configured = an_echo_config(inputs=())
    statements = (
        "config.set_max_batch_size(8); config.add_input({'name': 'IN', 'data_type': 'TYPE_WRONG', 'dims': [4]})"
    )
    assert completed(tmp_path, statements, configured) == configured


WHERE = "in auto-complete-config function for model 'echo'"
IN = "'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': [-1]"


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        (
            "config.set_max_batch_size(4)",
            f"ValueError: configuration specified max_batch_size 8, but {WHERE} specified max_batch_size 4",
        ),
        (
            "config.set_dynamic_batching()",
            (
                "ValueError: Configuration specified scheduling_choice as 'sequence_batching', but auto-complete-config "
                "function for model 'echo' tries to set scheduling_choice as 'dynamic_batching'"
            ),
        ),
        (
            f"config.add_input({{{IN}, 'more': 1}})",
            f"ValueError: input 'IN' {WHERE} contains property other than 'name', 'data_type', 'dims' and 'optional'.",
        ),
        (
            f"config.add_output({{{IN}, 'optional': True}})",
            f"ValueError: output 'IN' {WHERE} contains property other than 'name', 'data_type' and 'dims'.",
        ),
        ("config.add_input({})", f"ValueError: input {WHERE} is missing 'name' property."),
        ("config.add_input({'name': 'IN'})", f"ValueError: input 'IN' {WHERE} is missing 'data_type' property."),
        (
            "config.add_output({'name': 'X', 'data_type': 'TYPE_FP32'})",
            f"ValueError: output 'X' {WHERE} is missing 'dims' property.",
        ),
        (
            "config.add_input({'name': 'IN', 'data_type': 'TYPE_INT32', 'dims': [-1]})",
            (
                "ValueError: unable to load model 'echo', configuration expects datatype TYPE_FP32 for input 'IN', model "
                "provides TYPE_INT32"
            ),
        ),
        (
            "config.add_input({'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': [2]})",
            (
                "ValueError: model 'echo', tensor 'IN': the model expects dims [2] but the model configuration specifies "
                "dims [-1]"
            ),
        ),
        (
            f"config.add_input({{{IN}, 'optional': True}})",
            (
                "ValueError: model 'echo', tensor 'IN': the model expects optional True but the model configuration "
                "specifies optional False"
            ),
        ),
        (
            "config.set_model_transaction_policy({'x': 1})",
            (
                "ValueError: model transaction property in auto-complete-config function for model 'echo' contains property "
                "other than 'decoupled'."
            ),
        ),
        (
            "config.set_model_transaction_policy({'decoupled': False})",
            (
                "ValueError: trying to change decoupled property in auto-complete-config for model 'echo', which is already "
                "set to 'True'."
            ),
        ),
        (
            "return None",
            ("auto_complete_config function in model 'echo' must return a valid pb.ModelConfig object."),
        ),
        ("sys.exit(4)", "SystemExit: 4"),
        ("os._exit(4)", "Stub process 'echo_0' is not healthy."),
    ],
)
def test_contradictions_fail_the_load(tmp_path: Path, statements: str, text: str) -> None:
    configured = an_echo_config(max_batch_size=8, scheduling=SequenceBatching(), decoupled=True)
    with pytest.raises(InferenceError) as caught:
        completed(tmp_path, statements, configured)
    assert caught.value.message.startswith(text)


async def test_a_process_that_had_nothing_to_complete_is_used(tmp_path: Path) -> None:
    head = "open(__file__ + '.imports', 'a').write('x')\n" + HEAD
    async with PythonModel(tmp_path, ECHO, head=head, auto_complete=True) as model:
        assert await model.echoes()
    assert (tmp_path / "1" / "model.py.imports").read_text() == "x"


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("import nothing_of_this_name\n", "ModuleNotFoundError: No module named 'nothing_of_this_name'\n\nAt:\n  {file}(1): <module>\n"),
        ("def\n", "SyntaxError: invalid syntax (model.py, line 1)"),
        ("x = 1\n", "AttributeError: module '1.model' has no attribute 'TritonPythonModel'"),
        (
            "class TritonPythonModel:\n    def initialize(self): pass\n",
            "TypeError: TritonPythonModel.initialize() takes 1 positional argument but 2 were given",
        ),
        (
            "class TritonPythonModel:\n    def initialize(self, args):\n        raise RuntimeError('no')\n",
            "RuntimeError: no\n\nAt:\n  {file}(3): initialize\n",
        ),
        (
            "class TritonPythonModel:\n    def __init__(self):\n        raise SystemExit(2)\n",
            "SystemExit: 2\n\nAt:\n  {file}(3): __init__\n",
        ),
        ("import os\nos._exit(1)\n", "Stub process 'echo_0' is not healthy."),
    ],
)  # fmt: skip
async def test_load_errors_have_triton_s_texts(tmp_path: Path, module: str, text: str) -> None:
    with pytest.raises(InferenceError) as caught:
        async with PythonModel(tmp_path, module, head=""):
            pass
    assert caught.value.message.startswith(text.format(file=tmp_path / "1" / "model.py"))
    assert "charonia_runtime" not in caught.value.message


async def test_initialize_gets_what_triton_gives(tmp_path: Path) -> None:
    body = (
        ECHO
        + """
    def initialize(self, args):
        import json
        config = json.loads(args.pop("model_config"))
        modules = [__name__, sys.argv, sys.path[0], sys.path[-2:], os.getcwd(), pb_utils.get_model_dir()]
        with open(args["model_repository"] + "/seen.json", "w") as file:
            json.dump([args, config, modules], file)
"""
    )
    async with PythonModel(tmp_path, body) as model:
        arguments, config, modules = json.loads((tmp_path / "seen.json").read_text())
        assert arguments == {
            "model_instance_kind": "CPU",
            "model_instance_name": "echo_0",
            "model_instance_device_id": "0",
            "model_repository": str(tmp_path),
            "model_version": "1",
            "model_name": "echo",
        }
        assert config == json.loads(json.dumps(model.config.document))
        version = str(tmp_path / "1")
        assert modules == ["1.model", [""], "", [version, str(tmp_path)], str(Path.cwd()), version]


async def test_models_have_several_files(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "beside.py").write_text("VALUE = 1\n")
    (tmp_path / "1" / "relative.py").write_text("from . import beside\nVALUE = beside.VALUE + 1\n")
    (tmp_path / "above.py").write_text("VALUE = 3\n")
    body = """
    def execute(self, requests):
        import above, beside
        from . import relative
        value = np.float32([above.VALUE, beside.VALUE, relative.VALUE])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)]) for _ in requests]
"""
    async with PythonModel(tmp_path, body) as model:
        batch = await model.run(np.zeros(1, np.float32))
    assert batch.arrays_of(0)["OUT"].tolist() == [3, 1, 2]


async def test_our_package_does_not_shadow_the_model_s_modules(tmp_path: Path) -> None:
    """The child's code lies in a folder of its own that no import of the model finds."""
    head = (
        """
import sys
for name in ("session", "worker", "tensor", "request", "fastapi_not_here"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise AssertionError(name)
assert not any(name.split(".")[0] in {"fastapi", "uvicorn", "orjson", "grpc", "asyncio"} for name in sys.modules
               if name != "asyncio" and not name.startswith("asyncio.")), "too much is imported"
"""
        + HEAD
    )
    async with PythonModel(tmp_path, ECHO, head=head) as model:
        assert await model.echoes()


async def test_finalize_runs_and_may_fail(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = (
        ECHO
        + """
    def finalize(self):
        print("finalized", flush=True)
        raise ValueError("only logged")
"""
    )
    async with PythonModel(tmp_path, body):
        pass
    out, err = capfd.readouterr()
    assert out == "finalized\n"
    assert "ValueError: only logged" in err


# --- interpreters ---


def an_environment(folder: Path) -> Path:
    """A folder like a virtual environment, without pip and without our packages but numpy's."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    numpy_folder = Path(np.__file__).parent
    for path in (numpy_folder, numpy_folder.with_name("numpy.libs")):
        if path.exists():
            (site / path.name).symlink_to(path)
    (site / "only_here.py").write_text("VALUE = 42\n")
    return folder


ONLY_HERE = """
    def execute(self, requests):
        import only_here
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([only_here.VALUE]))]) for _ in requests]
"""


@pytest.mark.parametrize("packed", [False, True])
async def test_a_model_brings_its_environment(tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    environment = an_environment(tmp_path / "model" / "environment")
    name = "environment"
    if packed:
        name = "environment.tar.gz"
        with tarfile.open(tmp_path / "model" / name, "w:gz") as archive:
            archive.add(environment, ".")
        shutil.rmtree(environment)
    config = replace(an_echo_config(), parameters={"EXECUTION_ENV_PATH": f"$$TRITON_MODEL_DIRECTORY/{name}"})
    async with PythonModel(tmp_path / "model", ONLY_HERE, config=config) as model:
        batch = await model.run(np.zeros(1, np.float32))
        assert batch.arrays_of(0)["OUT"] == 42


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("/nowhere/at/all", "Failed to get the canonical path for /nowhere/at/all."),
        (
            "{tmp}",
            "Path {tmp}/bin/activate does not exist. The Python environment should contain an 'activate' script.",
        ),
        ("{tmp}/1/model.py", "Failed to extract the Python environment {tmp}/1/model.py: "),
    ],
)
async def test_a_path_that_is_no_environment(
    tmp_path: Path, value: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    config = replace(an_echo_config(), parameters={"EXECUTION_ENV_PATH": value.format(tmp=tmp_path)})
    with pytest.raises(InferenceError) as caught:
        await PythonModel(tmp_path, config=config).__aenter__()
    assert caught.value.message.startswith(text.format(tmp=tmp_path))


async def test_cpu_only_inputs_are_yes_or_no(tmp_path: Path) -> None:
    config = replace(an_echo_config(), parameters={"FORCE_CPU_ONLY_INPUT_TENSORS": "maybe"})
    with pytest.raises(UnsupportedError) as caught:
        await PythonModel(tmp_path, config=config).__aenter__()
    assert caught.value.message == "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe'"


# --- backends written in Python ---


async def test_a_backend_written_in_python_serves_models_of_data(tmp_path: Path) -> None:
    (tmp_path / "backends" / "custom").mkdir(parents=True)
    body = """
    def initialize(self, args):
        self.data = open(os.path.join(pb_utils.get_model_dir(), "data")).read()
        assert __name__ == "model", __name__

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([float(self.data)]))]) for _ in requests]
"""
    (tmp_path / "backends" / "custom" / "model.py").write_text(HEAD + body)
    version = tmp_path / "model" / "1"
    version.mkdir(parents=True)
    (version / "data").write_text("17")
    files = ModelFiles("echo", 1, tmp_path / "model", version, backend_directory=tmp_path / "backends")
    config = an_echo_config(backend="custom", runtime="model.py")
    backend = Backend(files)
    backend.load(config)
    instance = backend.create_instance(Placement("echo_0", InstanceKind.CPU))
    model = PythonModel(tmp_path / "unused", config=config)
    model.instance, model.backend = instance, backend
    batch = await model.execute(a_batch(config, {"IN": np.zeros(1, np.float32)}))
    assert batch.arrays_of(0)["OUT"] == 17
    await model.close()


def test_a_model_without_its_file(tmp_path: Path) -> None:
    backend = Backend(ModelFiles("echo", 1, tmp_path, tmp_path / "1"))
    with pytest.raises(InferenceError, match=f"Python model file not found in '{tmp_path}/1/model.py'"):
        backend.load(an_echo_config())
    assert isinstance(an_echo_config().scheduling, Direct)
