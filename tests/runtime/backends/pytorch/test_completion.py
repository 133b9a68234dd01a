"""Models without a configuration."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from charonia_runtime.backends import load_backend  # noqa: E402
from charonia_runtime.core.backend import ModelFiles  # noqa: E402
from charonia_runtime.core.config import ModelConfig, TensorSpec  # noqa: E402
from charonia_runtime.core.datatypes import DataType  # noqa: E402
from charonia_runtime.core.errors import InternalError  # noqa: E402
from charonia_runtime.core.scheduling import Direct, DynamicBatching  # noqa: E402
from tests.support.configs import a_tensor  # noqa: E402
from tests.support.torch_models import FP32, Difference, Loaded, Network, export, scripted, torch_config  # noqa: E402


class Sums(torch.nn.Module):
    """One value a row, and a number of rows."""

    def forward(self, rows):
        return rows.sum(1), rows.to(torch.int64)


def blank(**changes: Any) -> ModelConfig:
    return torch_config({}, {}, **({"platform": "torch_aoti", "max_batch_size": 0} | changes))


def test_an_archive_tells_everything(tmp_path: Path) -> None:
    export(Sums(), torch.ones(2, 3), path=tmp_path / "1" / "model.pt2")
    loaded = Loaded(tmp_path, blank())
    assert (loaded.config.max_batch_size, loaded.config.scheduling) == (4, DynamicBatching())
    assert loaded.config.inputs == (a_tensor("INPUT__0", FP32, 3),)
    assert loaded.config.outputs == (
        TensorSpec("OUTPUT__0", FP32, (1,), reshape=()),
        a_tensor("OUTPUT__1", DataType.INT64, 3),
    )
    answer = loaded.run({"INPUT__0": np.ones((2, 3), np.float32)}).arrays_of(0)
    assert (answer["OUTPUT__0"].tolist(), answer["OUTPUT__1"].tolist()) == ([[3], [3]], [[1, 1, 1], [1, 1, 1]])


def test_one_that_cannot_batch(tmp_path: Path) -> None:
    export(Difference(), torch.ones(2, 3), torch.ones(2, 3), path=tmp_path / "1" / "model.pt2", batched=False)
    loaded = Loaded(tmp_path, blank())
    assert (loaded.config.max_batch_size, loaded.config.scheduling) == (0, Direct())
    assert [spec.dims for spec in (*loaded.config.inputs, *loaded.config.outputs)] == [(2, 3)] * 4


def test_what_is_configured_stays(tmp_path: Path) -> None:
    export(Difference(), torch.ones(2, 3), torch.ones(2, 3), path=tmp_path / "1" / "model.pt2")
    given = replace(blank(max_batch_size=16), outputs=(a_tensor("OUTPUT__1", FP32, 3),))
    completed = Loaded(tmp_path, given).config
    assert (completed.max_batch_size, completed.outputs) == (16, given.outputs)


def test_modules_of_torchscript_tell_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scripted(tmp_path, Network())
    backend: Any = load_backend("pytorch")(ModelFiles("m", 1, tmp_path, tmp_path / "1"))
    given = blank(platform="pytorch_libtorch")
    with caplog.at_level(logging.WARNING):
        assert backend.auto_complete(given) == given
    assert "skipping model configuration auto-complete for 'm': not supported for pytorch backend" in caplog.text


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.pt2").write_bytes(b"no archive")
    with pytest.raises(InternalError, match=r"^failed to load model 'm': "):
        Loaded(tmp_path, blank())
