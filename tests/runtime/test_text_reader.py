"""The example that reads text: three real models and four Python steps as an ensemble, over a real server."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.support.processes import ServerProcess

EXAMPLES = Path(__file__).parents[2] / "runtime" / "examples"
PICTURE = EXAMPLES / "text.pbm"
LINES = ["Charonia tritonis", "turned upside down", "serves 3 models"]
CLIENTS = {"http": tritonclient.http, "grpc": tritonclient.grpc}


def script(name):
    """A script of the examples, as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def server(real_model_files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text_reader")
    shutil.copytree(EXAMPLES / "text_reader", folder / "models", ignore=shutil.ignore_patterns("*.onnx"))
    (wheel,) = real_model_files["text_detection"].parent.glob("rapidocr_onnxruntime-*.whl")
    script("fetch_text_models").unpack(wheel, folder / "models")
    with ServerProcess(folder / "models", folder / "log") as process:
        yield process


@pytest.fixture(scope="module")
def picture():
    return script("read_text").load(PICTURE)


def read(server, wire, picture):
    module = CLIENTS[wire]
    tensor = module.InferInput("PICTURE", list(picture.shape), "UINT8")
    tensor.set_data_from_numpy(picture)
    with module.InferenceServerClient(getattr(server, wire)) as client:
        answer = client.infer("text_reader", [tensor])
    return [text.decode() for text in answer.as_numpy("TEXT")], answer


def test_the_script_prints_what_is_written(server):
    command = [sys.executable, EXAMPLES / "read_text.py", "--server", server.grpc]
    assert subprocess.check_output(command, text=True).splitlines() == LINES


def test_the_script_refuses_other_files(tmp_path):
    (tmp_path / "picture").write_bytes(b"P1\n1 1\n0")
    with pytest.raises(ValueError, match=r"is no portable bitmap of kind P4$"):
        script("read_text").load(tmp_path / "picture")


@pytest.mark.parametrize("wire", CLIENTS)
def test_the_text_of_a_picture_is_read(server, wire, picture):
    texts, answer = read(server, wire, picture)
    assert texts == LINES
    assert (answer.as_numpy("CONFIDENCE") > 0.9).all()
    tops = answer.as_numpy("BOXES")[:, 1]
    assert sorted(tops) == list(tops)


def test_a_picture_that_stands_on_its_head_is_read_as_well(server, picture):
    texts, _ = read(server, "grpc", picture[::-1, ::-1].copy())
    assert texts == LINES[::-1]


def test_a_part_of_the_picture_has_the_lines_of_that_part(server, picture):
    texts, _ = read(server, "grpc", picture[110:])
    assert texts == LINES[2:]


def test_no_text_at_all(server):
    texts, answer = read(server, "grpc", np.full((64, 96, 3), 255, np.uint8))
    assert texts == [""]
    assert answer.as_numpy("CONFIDENCE").tolist() == [0]
