"""A real TorchScript model that keeps its state between calls, as the library alone runs it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from charonia_runtime.core.datatypes import DataType  # noqa: E402
from charonia_runtime.core.errors import InvalidArgumentError  # noqa: E402
from tests.support.processes import ServerProcess  # noqa: E402
from tests.support.real_models import fetch_voice_script  # noqa: E402
from tests.support.torch_models import FP32, Loaded, error_of, quietly, torch_config  # noqa: E402

RATE = np.array([16000])
SEQUENCES = """
platform: "pytorch_libtorch"
max_batch_size: 1
input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 512 ] }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1 ] }
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  control_input { name: "START__1" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }
}
instance_group { count: 2 kind: KIND_CPU }
"""


class Listener(torch.nn.Module):
    """The detector as a model of sequences: it forgets what it heard when one starts."""

    def __init__(self, voice):
        super().__init__()
        self.voice = voice

    def forward(self, sound, start):
        if bool(start[0, 0] > 0):
            self.voice.reset_states()
        return self.voice(sound, 16000)


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


@pytest.fixture
def listening(script: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    version = tmp_path / "models" / "listener" / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(SEQUENCES)
    with quietly():
        torch.jit.script(Listener(torch.jit.load(script).eval())).save(version / "model.pt")
    with ServerProcess(tmp_path / "models", tmp_path / "log") as process:
        yield process


def test_sequences_at_the_same_time(listening: ServerProcess, script: Path) -> None:
    """Each has an instance of its own until it ends; the next one there starts anew."""
    generator = np.random.default_rng(4)
    sounds = generator.random((3, 4, 1, 512), np.float32) - np.float32(0.5)
    with quietly():
        bare = torch.jit.load(script).eval()
    expected = []
    for sequence in sounds:
        bare.reset_states()
        with torch.inference_mode():
            expected.append([bare(torch.from_numpy(sound), 16000).item() for sound in sequence])

    answers: dict[int, list[float]] = {1: [], 2: [], 3: []}
    with triton.InferenceServerClient(listening.http) as client:
        for number in (1, 2, 1, 2, 1, 2, 1, 3, 2, 3, 3, 3):  # the third takes the place of the first
            step = len(answers[number])
            tensor = triton.InferInput("INPUT__0", [1, 512], "FP32")
            tensor.set_data_from_numpy(sounds[number - 1, step])
            answer = client.infer(
                "listener", [tensor], sequence_id=number, sequence_start=step == 0, sequence_end=step == 3
            )
            answers[number].append(answer.as_numpy("OUTPUT__0").item())
    np.testing.assert_allclose([answers[number] for number in (1, 2, 3)], expected, rtol=1e-6)
