"""One residual network in the form of every framework: what is served is what the framework alone gives."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton

from tests.support.frameworks import is_installed
from tests.support.processes import ServerProcess

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from tests.support import resnets  # noqa: E402
from tests.support.torch_models import quietly  # noqa: E402

MANUAL = """
platform: "pytorch_libtorch"
max_batch_size: 128
input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] } ]
output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 1000 ] } ]
"""
WRITERS: dict[str, Callable[[Any, Path], None]] = {
    "torch": resnets.write_torchscript,
    "onnxruntime": resnets.write_onnx,
    "openvino": resnets.write_openvino,
    "tensorflow": resnets.write_saved_model,
}
LIBRARIES = [library for library in WRITERS if is_installed(library)]
PICTURES = resnets.pictures(3)


def by_torch(version: Path) -> np.ndarray[Any, Any]:
    with quietly(), torch.inference_mode():
        answer: np.ndarray[Any, Any] = torch.jit.load(version / "model.pt").eval()(torch.from_numpy(PICTURES)).numpy()
    return answer


def by_onnxruntime(version: Path) -> np.ndarray[Any, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(version / "model.onnx", providers=["CPUExecutionProvider"])
    answer: np.ndarray[Any, Any] = session.run(None, {"PICTURES": PICTURES})[0]
    return answer


def by_openvino(version: Path) -> np.ndarray[Any, Any]:
    import openvino

    answer: np.ndarray[Any, Any] = openvino.Core().compile_model(version / "model.xml", "CPU")([PICTURES])[0]
    return answer


def by_tensorflow(version: Path) -> np.ndarray[Any, Any]:
    from tests.support.tensorflow_models import tensorflow

    signature = tensorflow.saved_model.load(str(version / "model.savedmodel")).signatures["serving_default"]
    answer: np.ndarray[Any, Any] = signature(PICTURES=tensorflow.constant(PICTURES))["CLASSES"].numpy()
    return answer


TOLERANCES = {"openvino": 2e-3}
"""Of scores up to about 0.1. openvino computes in BF16 on processors that can."""
ALONE = {"torch": by_torch, "onnxruntime": by_onnxruntime, "openvino": by_openvino, "tensorflow": by_tensorflow}


@pytest.fixture(scope="module", params=[18, pytest.param(50, marks=pytest.mark.slow)])
def network(request: pytest.FixtureRequest) -> resnets.ResNet:
    return resnets.ResNet(request.param)


@pytest.fixture(scope="module")
def repository(network: resnets.ResNet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All forms without a configuration, but for TorchScript, which tells no shapes."""
    folder = tmp_path_factory.mktemp("resnet")
    for library in LIBRARIES:
        WRITERS[library](network, folder / library / "1")
    (folder / "torch" / "config.pbtxt").write_text(MANUAL)
    return folder


@pytest.fixture(scope="module")
def server(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("served") / "log"
    with ServerProcess(repository, log, wait_seconds=300) as process:
        yield process


@pytest.mark.timeout(600)
@pytest.mark.parametrize("library", WRITERS)
def test_what_is_served_is_what_the_framework_gives(
    library: str, network: resnets.ResNet, repository: Path, server: ServerProcess
) -> None:
    if library not in LIBRARIES:
        pytest.skip(f"the package {library} is not installed")
    source, output = ("INPUT__0", "OUTPUT__0") if library == "torch" else ("PICTURES", "CLASSES")
    tensor = triton.InferInput(source, list(PICTURES.shape), "FP32")
    tensor.set_data_from_numpy(PICTURES)
    with triton.InferenceServerClient(server.http, network_timeout=60) as client:
        answer = client.infer(library, [tensor]).as_numpy(output)

    np.testing.assert_allclose(answer, ALONE[library](repository / library / "1"), rtol=1e-5, atol=1e-6)
    with torch.inference_mode():
        expected = network(torch.from_numpy(PICTURES)).numpy()
    np.testing.assert_allclose(answer, expected, rtol=1e-3, atol=TOLERANCES.get(library, 1e-5))
