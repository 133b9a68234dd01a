"""The example that reads text: three real models and four Python steps as an ensemble, over a real server."""

import importlib.util
import shutil
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


@pytest.fixture(scope="module")
def server(real_model_files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text_reader")
    shutil.copytree(EXAMPLES / "text_reader", folder / "models", ignore=shutil.ignore_patterns("*.onnx"))
    spec = importlib.util.spec_from_file_location("fetch_text_models", EXAMPLES / "fetch_text_models.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    (wheel,) = real_model_files["text_detection"].parent.glob("rapidocr_onnxruntime-*.whl")
    script.unpack(wheel, folder / "models")
    with ServerProcess(folder / "models", folder / "log") as process:
        yield process


@pytest.fixture(scope="module")
def picture():
    """The file's bits, one a pixel and set for black, as a picture of three colours."""
    magic, sizes, bits = PICTURE.read_bytes().split(b"\n", 2)
    assert magic == b"P4"
    width, height = map(int, sizes.split())
    black = np.unpackbits(np.frombuffer(bits, np.uint8).reshape(height, -1), axis=1)[:, :width]
    return np.repeat(np.where(black, 0, 255).astype(np.uint8)[:, :, np.newaxis], 3, axis=2)


def read(server, wire, picture):
    module = CLIENTS[wire]
    tensor = module.InferInput("PICTURE", list(picture.shape), "UINT8")
    tensor.set_data_from_numpy(picture)
    with module.InferenceServerClient(getattr(server, wire)) as client:
        answer = client.infer("text_reader", [tensor])
    return [text.decode() for text in answer.as_numpy("TEXT")], answer


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
