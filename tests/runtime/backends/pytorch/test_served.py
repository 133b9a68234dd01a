"""The platform manual's repository and eager models, through the whole server."""

from collections.abc import Iterator

import numpy as np
import pytest
import tritonclient.http as triton

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from tests.support.processes import ServerProcess  # noqa: E402
from tests.support.torch_models import Pictures, save_script  # noqa: E402

MANUAL = """
name: "NAME"
platform: "pytorch_libtorch"
max_batch_size: 128
input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] } ]
output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1000 ] } ]
"""
POLICIES = {
    "unsaid": ("", {3}),
    "latest": ("version_policy: { latest { num_versions: 2 } }", {2, 3}),
    "all": ("version_policy: { all { } }", {1, 2, 3}),
    "specific": ("version_policy: { specific { versions: [ 1, 3 ] } }", {1, 3}),
}
EAGER = """
import torch


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(1))

    def forward(self, left, right):
        if left.shape[0] > 4:
            raise ValueError("too many")
        return left * self.factor, left - right
"""
EAGER_CONFIG = """
backend: "pytorch"
runtime: "model.py"
max_batch_size: 8
input [ { name: "L" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "R" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "SCALED" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "REST" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU } ]
parameters { key: "TORCH_COMPILE_OPTIONAL_PARAMETERS" value { string_value: '{"backend": "eager"}' } }
"""
PICTURES = np.random.default_rng(0).random((2, 3, 20, 30), np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("served")
    for name, (policy, _) in POLICIES.items():
        for version in (1, 2, 3):
            save_script(Pictures(), folder / "models" / name / str(version) / "model.pt")
        (folder / "models" / name / "config.pbtxt").write_text(MANUAL.replace("NAME", name) + policy)
    eager = folder / "models" / "eager" / "1"
    eager.mkdir(parents=True)
    (eager.parent / "config.pbtxt").write_text(EAGER_CONFIG)
    (eager / "model.py").write_text(EAGER)
    torch.save({"factor": torch.full((1,), 3.0)}, eager / "model.pt")
    with ServerProcess(folder / "models", folder / "log") as process:
        yield process


def infer(server: ServerProcess, model: str, **arrays: np.ndarray) -> triton.InferResult:
    inputs = []
    for name, array in arrays.items():
        tensor = triton.InferInput(name, list(array.shape), "FP32")
        tensor.set_data_from_numpy(array)
        inputs.append(tensor)
    with triton.InferenceServerClient(server.http) as client:
        return client.infer(model, inputs)


@pytest.mark.parametrize("name", POLICIES)
def test_the_manual_s_example_is_served_as_it_stands(name: str, server: ServerProcess) -> None:
    answer = infer(server, name, INPUT__0=PICTURES).as_numpy("OUTPUT__0")
    with torch.inference_mode():
        expected = Pictures().eval()(torch.from_numpy(PICTURES)).numpy()
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", POLICIES)
def test_each_version_policy(name: str, server: ServerProcess) -> None:
    with triton.InferenceServerClient(server.http) as client:
        ready = {version for version in (1, 2, 3) if client.is_model_ready(name, str(version))}
    assert ready == POLICIES[name][1]


def test_an_eager_model_with_its_weights(server: ServerProcess) -> None:
    left, right = np.ones((2, 2), np.float32), np.full((2, 2), 5, np.float32)
    answer = infer(server, "eager", R=right, L=left)
    np.testing.assert_array_equal(answer.as_numpy("SCALED"), 3 * left)
    np.testing.assert_array_equal(answer.as_numpy("REST"), left - right)


def test_what_an_eager_model_raises(server: ServerProcess) -> None:
    many = np.ones((5, 2), np.float32)
    with pytest.raises(triton.InferenceServerException, match="too many"):
        infer(server, "eager", L=many, R=many)
