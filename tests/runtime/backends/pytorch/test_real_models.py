"""A real TorchScript model that keeps its state between calls, as the library alone runs it."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from charonia_runtime.core.datatypes import DataType  # noqa: E402
from charonia_runtime.core.errors import InvalidArgumentError  # noqa: E402
from tests.support.real_models import fetch_voice_script  # noqa: E402
from tests.support.torch_models import FP32, Loaded, error_of, quietly, torch_config  # noqa: E402

RATE = np.array([16000])


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Path:
    assert request.config.cache is not None
    return fetch_voice_script(request.config.cache.mkdir("real-models"))


@pytest.fixture
def voice(script: Path, tmp_path: Path) -> Loaded:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.pt").symlink_to(script)
    config = torch_config(
        {"x": (FP32, 1, 512), "sr": (DataType.INT64, 1)}, {"OUTPUT__0": (FP32, 1, 1)}, max_batch_size=0
    )
    return Loaded(tmp_path, config)


def test_a_sequence_whose_state_the_model_keeps(voice: Loaded, script: Path) -> None:
    with quietly():
        bare = torch.jit.load(script).eval()
    generator = np.random.default_rng(3)
    answers, expected = [], []
    for _ in range(4):
        sound = generator.random((1, 512), np.float32) - np.float32(0.5)
        answers.append(voice.run({"x": sound, "sr": RATE}).arrays_of(0)["OUTPUT__0"].item())
        with torch.inference_mode():
            expected.append(bare(torch.from_numpy(sound), 16000).item())
    assert answers == expected
    assert len(set(answers)) == 4


def test_a_number_has_one_value(voice: Loaded) -> None:
    error = error_of(voice.run({"x": np.zeros((1, 512), np.float32), "sr": np.array([16000, 8000])}))
    assert isinstance(error, InvalidArgumentError)
    assert "'sr' is a number to the model" in error.message
