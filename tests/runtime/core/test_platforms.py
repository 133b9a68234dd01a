import pytest

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.platforms import derive_backend

FILE, DIRECTORY = False, True


@pytest.mark.parametrize(
    ("files", "backend", "platform", "filename"),
    [
        ({"model.py": FILE}, "python", "", "model.py"),
        ({"model.onnx": FILE}, "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ({"model.onnx": DIRECTORY}, "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ({"model.plan": FILE}, "tensorrt", "tensorrt_plan", "model.plan"),
        ({"model.pt": FILE}, "pytorch", "pytorch_libtorch", "model.pt"),
        ({"model.pt2": FILE}, "pytorch", "torch_aoti", "model.pt2"),
        ({"model.pt": FILE, "model.pt2": FILE}, "pytorch", "pytorch_libtorch", "model.pt"),
        ({"model.xml": FILE, "model.bin": FILE}, "openvino", "", "model.xml"),
        ({"model.savedmodel": DIRECTORY}, "tensorflow", "tensorflow_savedmodel", "model.savedmodel"),
        ({"model.graphdef": FILE}, "tensorflow", "tensorflow_graphdef", "model.graphdef"),
        (
            {"model.graphdef": FILE, "model.savedmodel": DIRECTORY},
            "tensorflow",
            "tensorflow_graphdef",
            "model.graphdef",
        ),
        ({"model.py": FILE, "model.onnx": FILE}, "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ({"model.onnx": FILE, "model.plan": FILE}, "tensorrt", "tensorrt_plan", "model.plan"),
        ({"model.plan": DIRECTORY, "model.py": FILE}, "python", "", "model.py"),
        ({"model.savedmodel": FILE, "model.py": FILE}, "python", "", "model.py"),
        ({"model.dali": FILE}, "dali", "", "model.dali"),
        ({"dali.py": FILE}, "dali", "", "dali.py"),
        ({"xgboost.json": FILE}, "fil", "", "xgboost.json"),
        ({"checkpoint.tl": FILE}, "fil", "", "checkpoint.tl"),
        ({"model.txt": FILE}, "fil", "", "model.txt"),
        ({"model.txt": FILE, "model.onnx": FILE}, "onnxruntime", "onnxruntime_onnx", "model.onnx"),
    ],
)
def test_backend_by_files(files: dict[str, bool], backend: str, platform: str, filename: str) -> None:
    config = derive_backend(ModelConfig("m"), files)
    assert (config.backend, config.platform, config.default_model_filename) == (backend, platform, filename)


@pytest.mark.parametrize(
    ("given", "backend", "platform", "filename"),
    [
        ({"platform": "onnxruntime_onnx"}, "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ({"backend": "onnxruntime"}, "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ({"backend": "onnxruntime", "default_model_filename": "x.onnx"}, "onnxruntime", "onnxruntime_onnx", "x.onnx"),
        ({"default_model_filename": "model.onnx"}, "onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ({"backend": "python"}, "python", "", "model.py"),
        ({"backend": "python", "platform": "own"}, "python", "own", "model.py"),
        ({"backend": "pytorch"}, "pytorch", "pytorch_libtorch", "model.pt"),
        ({"backend": "pytorch", "runtime": "model.py"}, "pytorch", "pytorch_libtorch", ""),
        ({"platform": "torch_aoti"}, "pytorch", "torch_aoti", "model.pt2"),
        ({"backend": "pytorch", "platform": "torch_aoti"}, "pytorch", "torch_aoti", "model.pt2"),
        ({"platform": "libtorch"}, "pytorch", "libtorch", "model.pt"),
        ({"platform": "tensorflow_savedmodel"}, "tensorflow", "tensorflow_savedmodel", "model.savedmodel"),
        ({"default_model_filename": "model.graphdef"}, "tensorflow", "tensorflow_graphdef", "model.graphdef"),
        ({"backend": "tensorflow"}, "tensorflow", "", ""),
        ({"backend": "identity"}, "identity", "", ""),
        ({"platform": "ensemble"}, "", "ensemble", ""),
        ({"default_model_filename": "other.bin"}, "", "", "other.bin"),
    ],
)
def test_backend_by_what_is_given(given: dict[str, str], backend: str, platform: str, filename: str) -> None:
    config = derive_backend(ModelConfig("m", **given), {})
    assert (config.backend, config.platform, config.default_model_filename) == (backend, platform, filename)


def test_given_platform_keeps_files_from_deciding() -> None:
    assert derive_backend(ModelConfig("m", platform="python"), {"model.py": FILE}).backend == ""


@pytest.mark.parametrize("file", ["weights.bin", "model.txt"])
def test_backend_by_name_is_everything_after_the_first_dot(file: str) -> None:
    config = derive_backend(ModelConfig("x.y.z"), {file: FILE})
    assert (config.backend, config.default_model_filename) == ("y.z", "model.y.z")


def test_nothing_tells() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        derive_backend(ModelConfig("m"), {"weights.bin": FILE})
    assert raised.value.message == (
        "Invalid model name: Could not determine backend for model 'm' with no backend in model configuration. "
        "Expected model name of the form 'model.<backend_name>'."
    )
