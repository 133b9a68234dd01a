"""`charonia check --print-config`: what models are served with. Its faults have their tests with `engine.inspection`."""

import json
from pathlib import Path

import pytest

from charonia_runtime.cli import run
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.scheduling import DynamicBatching
from charonia_runtime.protocols.model_config import complete, parse_text
from charonia_runtime.trial import available_mebibytes
from tests.support.configs import a_tensor
from tests.support.onnx_models import a_model, a_node, a_value
from tests.support.python_models import write_model as write_python_model
from tests.support.repositories import write_model

COMPLETING = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [4]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [4]})
        config.set_max_batch_size(3)
        return config

    def execute(self, requests):
        return []
"""
HUNGRY = """
class TritonPythonModel:
    def initialize(self, args):
        self.weights = bytearray(1 << 30)

    def execute(self, requests):
        return []
"""
ENSEMBLE = """
platform: "ensemble"
input { name: "A" data_type: TYPE_INT32 dims: 4 }
output { name: "B" data_type: TYPE_INT32 dims: 4 }
ensemble_scheduling { step {
  model_name: "simple" model_version: -1 input_map { key: "INPUT" value: "A" } output_map { key: "OUTPUT" value: "B" }
} }
"""


def write_onnx(repository: Path, name: str) -> None:
    version = repository / name / "1"
    version.mkdir(parents=True)
    model = a_model([a_node("Identity", ["IN"], ["OUT"])], [a_value("IN", ["n", 3])], [a_value("OUT", ["n", 3])])
    (version / "model.onnx").write_bytes(model)


def test_what_a_model_file_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_onnx(tmp_path, "bare")

    code = run(["check", str(tmp_path), "--print-config", "--backend-config=onnxruntime,default-max-batch-size=7"])

    printed = capsys.readouterr()
    assert code == 0
    assert printed.err.endswith("1 models checked, 0 with faults\n")
    assert printed.out.startswith(f"# {tmp_path}/bare/config.pbtxt\n")
    config = parse_text(printed.out.encode(), "printed")
    assert (config.name, config.backend, config.platform) == ("bare", "onnxruntime", "onnxruntime_onnx")
    assert (config.max_batch_size, config.scheduling) == (7, DynamicBatching(preferred_batch_sizes=(7,)))
    assert config.inputs == (a_tensor("IN", DataType.FP32, 3),)
    assert config.outputs == (a_tensor("OUT", DataType.FP32, 3),)


def test_a_printed_configuration_completes_to_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_onnx(tmp_path, "bare")
    run(["check", str(tmp_path), "--print-config"])
    first = capsys.readouterr().out
    (tmp_path / "bare" / "config.pbtxt").write_text(first)

    run(["check", str(tmp_path), "--print-config"])

    assert capsys.readouterr().out == first


def test_python_models_complete_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_python_model(tmp_path / "own", COMPLETING, head="")

    assert run(["check", str(tmp_path), "--print-config"]) == 0

    config = complete(parse_text(capsys.readouterr().out.encode(), "printed"))
    assert (config.max_batch_size, config.inputs) == (3, (a_tensor("IN", DataType.FP32, 4),))


def test_every_model_has_its_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(tmp_path, "simple")
    write_model(tmp_path, "both", base=ENSEMBLE)

    assert run(["check", str(tmp_path), "--print-config"]) == 0

    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith(("#", "name"))] == [
        f"# {tmp_path}/both/config.pbtxt", 'name: "both"', f"# {tmp_path}/simple/config.pbtxt", 'name: "simple"',
    ]  # fmt: skip


def test_configurations_without_completion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_onnx(tmp_path, "bare")
    write_model(tmp_path, "simple")

    assert run(["check", str(tmp_path), "--print-config", "--disable-auto-complete-config"]) == 1

    printed = capsys.readouterr()
    assert 'name: "simple"' in printed.out
    assert 'name: "bare"' not in printed.out
    assert f"{tmp_path}/bare/config.pbtxt: failed to open text file for read" in printed.err


def test_what_a_model_does_not_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(tmp_path, "silent", base='backend: "identity"')

    assert run(["check", str(tmp_path), "--print-config"]) == 0

    _, second, *_ = capsys.readouterr().out.splitlines()
    assert second == "# add input and output, which the model does not tell"


def test_models_that_cannot_be_completed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_onnx(tmp_path, "broken")
    (tmp_path / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    write_model(tmp_path, "other", base='backend: "nothing"')
    write_model(tmp_path, "sound")

    assert run(["check", str(tmp_path), "--print-config"]) == 1

    printed = capsys.readouterr()
    assert printed.out.count("# ") == 1
    *faults, total = printed.err.splitlines()
    assert faults[0].startswith(f"{tmp_path}/broken/config.pbtxt: onnx runtime error 7")
    assert faults[1].startswith(f"{tmp_path}/other/config.pbtxt: backend: unable to find backend library")
    assert (len(faults), total) == (2, "3 models checked, 2 with faults")


def test_a_report_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(tmp_path, "other", base='backend: "nothing"')
    write_model(tmp_path, "sound")

    assert run(["check", str(tmp_path), "--json"]) == 1

    report = json.loads(capsys.readouterr().out)
    (fault,) = report["faults"]
    assert (report["models"], report["loads"]) == (["other", "sound"], [])
    assert (fault["model"], fault["file"], fault["field"]) == ("other", f"{tmp_path}/other/config.pbtxt", "backend")


def test_models_are_loaded_for_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_onnx(tmp_path, "good")
    write_python_model(tmp_path / "crashes", COMPLETING, head="")
    write_python_model(tmp_path / "hungry", HUNGRY, head="")
    write_python_model(tmp_path / "raises", COMPLETING.replace("return config", "raise ValueError('bad day')"), head="")
    (tmp_path / "crashes" / "1" / "model.py").write_text("import os\nos._exit(3)\nclass TritonPythonModel: pass\n")

    assert run(["check", str(tmp_path), "--load", "--load-memory-limit=500", "--json"]) == 1

    report = json.loads(capsys.readouterr().out)
    loads = {load["model"]: load for load in report["loads"]}
    assert loads["good"]["error"] == ""
    assert loads["good"]["seconds"] > 0
    assert "is not healthy" in loads["crashes"]["error"]
    assert "ValueError: bad day" in loads["raises"]["error"]
    assert "the limit is 500 MiB for each process" in loads["hungry"]["error"]
    assert {fault["model"] for fault in report["faults"]} == {"crashes", "hungry", "raises"}


def test_a_model_that_hangs_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import time\nclass TritonPythonModel:\n    def initialize(self, args):\n        time.sleep(600)\n"
    write_python_model(tmp_path / "hangs", code, head="")

    assert run(["check", str(tmp_path), "--load", "--load-timeout-secs=3"]) == 1

    fault, total = capsys.readouterr().out.splitlines()
    assert fault == f"{tmp_path}/hangs: it does not load: it has not loaded within 3 s"
    assert total == "1 models checked, 1 with faults"


@pytest.mark.parametrize("flag", ["--load-memory-limit=-1", "--load-timeout-secs=0", "--nonsense"])
def test_command_lines_that_are_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert run(["check", str(tmp_path), flag]) == 2

    assert flag.partition("=")[0].strip("-") in capsys.readouterr().err


def test_the_exit_codes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--help"]) == 0

    assert "Exit codes:\n  0 " in capsys.readouterr().out


def test_memory_of_a_container(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 4096000 kB\n")
    assert available_mebibytes(tmp_path / "meminfo", tmp_path) == 4000
    (tmp_path / "memory.max").write_text(f"{1 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{1 << 28}\n")
    assert available_mebibytes(tmp_path / "meminfo", tmp_path) == 768
    (tmp_path / "memory.max").write_text("max\n")
    assert available_mebibytes(tmp_path / "meminfo", tmp_path) == 4000


def test_a_setting_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(tmp_path), "--print-config", "--backend-config=mine"]) == 1

    assert "--backend-config option format is" in capsys.readouterr().err
