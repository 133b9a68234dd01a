"""Archives of torch.export and packages of AOTInductor."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from torch import nn  # noqa: E402

from charonia_runtime.core.config import ModelConfig  # noqa: E402
from charonia_runtime.core.datatypes import DataType  # noqa: E402
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnavailableError  # noqa: E402
from tests.support.torch_models import (  # noqa: E402
    FP32,
    Difference,
    Loaded,
    Network,
    error_of,
    export,
    exported,
    quietly,
    torch_config,
)


class Structured(nn.Module):
    """Takes and gives nested structures; every input and output can be told from the others."""

    def forward(self, x, pair, *, scale):
        return {"z": x + 10 * pair["b"], "a": (pair["a"] * 100, scale * 1000)}


X, A, B, SCALE = (np.full((2, 3), value, np.float32) for value in (1, 2, 3, 4))
SENT = {"ARGS[0]": X, "ARGS[1][b]": B, "ARGS[1][a]": A, "KWARGS[scale]": SCALE}
MADE = {"RESULT[z]": X + 10 * B, "RESULT[a][0]": 100 * A, "RESULT[a][1]": 1000 * SCALE}


def structured_arguments() -> tuple[Any, ...]:
    x, a, b = (torch.from_numpy(array) for array in (X, A, B))
    return x, {"b": b, "a": a}


def exported_config(inputs: Any, outputs: Any, **changes: Any) -> ModelConfig:
    return torch_config(
        dict.fromkeys(inputs, (FP32, 3)), dict.fromkeys(outputs, (FP32, 3)), platform="torch_aoti", **changes
    )


def structured(directory: Path) -> Path:
    export(Structured(), *structured_arguments(), path=directory / "1" / "model.pt2", scale=torch.from_numpy(SCALE))
    return directory


def differences(directory: Path) -> Path:
    x = torch.ones(2, 3)
    export(Difference(), x, x.clone(), path=directory / "1" / "model.pt2")
    return directory


def test_structured_names(tmp_path: Path) -> None:
    loaded = Loaded(structured(tmp_path), exported_config(SENT, MADE))
    outputs = loaded.run(SENT).arrays_of(0)
    for name, array in MADE.items():
        np.testing.assert_array_equal(outputs[name], array)


def test_numbers_count_leaves_in_the_order_of_the_structure(tmp_path: Path) -> None:
    sent = {f"INPUT__{position}": array for position, array in enumerate(SENT.values())}
    made = {f"OUTPUT__{position}": array for position, array in enumerate(MADE.values())}
    outputs = Loaded(structured(tmp_path), exported_config(sent, made)).run(sent).arrays_of(0)
    for name, array in made.items():
        np.testing.assert_array_equal(outputs[name], array)


def test_a_single_result(tmp_path: Path) -> None:
    export(nn.Identity(), torch.ones(2, 3), path=tmp_path / "1" / "model.pt2")
    outputs = Loaded(tmp_path, exported_config(["ARGS[0]"], ["RESULT"])).run({"ARGS[0]": X}).arrays_of(0)
    np.testing.assert_array_equal(outputs["RESULT"], X)


def test_requests_are_batched(tmp_path: Path) -> None:
    names = ("INPUT__0", "INPUT__1")
    loaded = Loaded(differences(tmp_path), exported_config(names, ["RESULT[0]"]))
    batch = loaded.run(*[dict(zip(names, (X[:rows] * rows, X[:rows]), strict=True)) for rows in (1, 2)])
    np.testing.assert_array_equal(batch.arrays_of(1)["RESULT[0]"], X)


@pytest.mark.parametrize(
    ("inputs", "outputs", "text"),
    [
        (
            ["ARGS[0]", "ARGS[2]"],
            ["RESULT[0]"],
            'Input "ARGS[2]" for model instance "m_0" is not found in model input map.',
        ),
        (
            ["ARGS[0]", "ARGS[1]"],
            ["RESULT[2]"],
            'Output "RESULT[2]" for model instance "m_0" is not found in model output map.',
        ),
        (
            ["ARGS[0]"],
            ["RESULT[0]"],
            'Failed to load model "m" configuration expects 1 inputs, but model expects 2 inputs.',
        ),
    ],
)
def test_names_that_the_program_does_not_have(inputs: Any, outputs: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Loaded(differences(tmp_path), exported_config(inputs, outputs))
    assert caught.value.message == text


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        Loaded(tmp_path, exported_config(["ARGS[0]"], ["RESULT"]))
    assert caught.value.message == (
        f'PyTorch inductor model file "{tmp_path}/1/model.pt2" is unreachable or inaccessible.'
    )


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.pt2").write_bytes(b"no archive")
    with pytest.raises(InternalError, match=r"^failed to load model 'm': "):
        Loaded(tmp_path, exported_config(["ARGS[0]"], ["RESULT"]))


def test_an_output_of_another_type(tmp_path: Path) -> None:
    config = torch_config(
        {"ARGS[0]": (FP32, 3), "ARGS[1]": (FP32, 3)}, {"RESULT[0]": (DataType.INT64, 3)}, platform="torch_aoti"
    )
    error = error_of(Loaded(differences(tmp_path), config).run({"ARGS[0]": X, "ARGS[1]": A}))
    assert isinstance(error, InvalidArgumentError)
    assert error.message == (
        'Inductor model instance "m_0" output tensor "RESULT[0]" has datatype TYPE_FP32 but model configuration expects '
        "TYPE_INT64."
    )


def test_shapes_that_were_not_exported_are_refused(tmp_path: Path) -> None:
    config = torch_config(
        {"ARGS[0]": (FP32, -1), "ARGS[1]": (FP32, -1)}, {"RESULT[0]": (FP32, -1)}, platform="torch_aoti"
    )
    wide = np.ones((1, 4), np.float32)
    error = error_of(Loaded(differences(tmp_path), config).run({"ARGS[0]": wide, "ARGS[1]": wide}))
    assert error.message.startswith("PyTorch execute failure: ")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("compiled")
    (directory / "1").mkdir()
    with quietly():
        program = exported(Network(), torch.ones(2, 128))
        try:
            torch._inductor.aoti_compile_and_package(program, package_path=str(directory / "1" / "model.pt2"))
        except torch._inductor.exc.InvalidCxxCompiler as error:
            pytest.skip(f"AOTInductor needs a C++ compiler: {error}")
    return directory


@pytest.mark.slow
@pytest.mark.timeout(400)
class TestCompiled:
    """Compiling takes half a minute, so there is one model for all of it."""

    def config(self, width: int) -> ModelConfig:
        return torch_config({"ARGS[0]": (FP32, width)}, {"RESULT": (FP32, 10)}, platform="torch_aoti")

    def test_the_same_numbers_as_the_module(self, package: Path) -> None:
        parts = [np.random.default_rng(rows).random((rows, 128), np.float32) for rows in (1, 3)]
        batch = Loaded(package, self.config(128)).run(*[{"ARGS[0]": part} for part in parts])
        with torch.inference_mode():
            expected = Network().eval()(torch.from_numpy(parts[1])).numpy()
        np.testing.assert_allclose(batch.arrays_of(1)["RESULT"], expected, rtol=1e-4, atol=1e-5)

    def test_shapes_that_were_not_compiled_are_refused(self, package: Path) -> None:
        """Unchecked, the compiled code would read beyond the request's memory."""
        batch = Loaded(package, self.config(-1)).run({"ARGS[0]": np.ones((1, 64), np.float32)})
        assert error_of(batch).message.startswith("PyTorch execute failure: ")
