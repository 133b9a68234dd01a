"""The example repository: it loads, its model is as good as its script says, its request is answered."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.scheduling import DynamicBatching
from charonia_runtime.protocols.model_config import complete, parse_text
from tests.support.batches import a_batch
from tests.support.loaded_models import execute

EXAMPLES = Path(__file__).parents[2] / "runtime" / "examples"
DIGITS = EXAMPLES / "models" / "digits"
LARGEST_COMMITTED_BYTES = 200_000


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_digits", EXAMPLES / "train_digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def config() -> ModelConfig:
    path = DIGITS / "config.pbtxt"
    return complete(replace(parse_text(path.read_bytes(), str(path)), name="digits"))


def accuracy(model: bytes, script: ModuleType) -> float:
    _, _, images, digits = script.training_and_held_out()
    (probabilities,) = onnxruntime.InferenceSession(model).run(None, {"IMAGE": images})
    return float((probabilities.argmax(axis=1) == digits).mean())


def test_the_committed_model_reads_images_it_has_not_seen(script: ModuleType) -> None:
    model = (DIGITS / "1" / "model.onnx").read_bytes()
    assert len(model) < LARGEST_COMMITTED_BYTES
    assert accuracy(model, script) > 0.95


def test_the_script_makes_a_model_as_good(script: ModuleType) -> None:
    assert accuracy(script.to_onnx(script.train()).SerializeToString(), script) > 0.95


def test_the_configuration_says_what_the_model_is(config: ModelConfig) -> None:
    assert isinstance(config.scheduling, DynamicBatching)
    labels = (DIGITS / config.outputs[0].label_filename).read_text().splitlines()
    assert labels == ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def test_the_request_is_read_as_a_five(config: ModelConfig) -> None:
    request = json.loads((EXAMPLES / "request.json").read_text())
    (image,) = request["inputs"]
    backend = load_backend("onnxruntime")(ModelFiles("digits", 1, DIGITS, DIGITS / "1"))
    assert backend.auto_complete(config) == config
    backend.load(config)
    instance = backend.create_instance(Placement("digits_0", InstanceKind.CPU))
    sent = np.array(image["data"], np.float32).reshape(image["shape"])
    outputs = execute(instance, a_batch(config, {image["name"]: sent})).arrays_of(0)
    assert outputs["PROBABILITIES"].argmax() == 5
    assert [output["name"] for output in request["outputs"]] == ["PROBABILITIES"]
