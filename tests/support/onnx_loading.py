"""ONNX models loaded by their backend, without the engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from tests.support import loaded_models
from tests.support.batches import RecordedBatch
from tests.support.configs import a_config

FP32 = DataType.FP32


class Loaded(loaded_models.Loaded):
    """A model in one folder, with as many instances as a test wants."""

    backend_name = "onnxruntime"

    def __init__(self, directory: Path, model: bytes, config: ModelConfig, **settings: str) -> None:
        (directory / "1").mkdir(parents=True, exist_ok=True)
        if model:
            (directory / "1" / "model.onnx").write_bytes(model)
        super().__init__(directory, config, **settings)


Load = Callable[..., Loaded]


def blank(**changes: Any) -> ModelConfig:
    """A configuration that says nothing: auto-complete fills it."""
    return a_config("m", **({"backend": "onnxruntime", "max_batch_size": 0, "inputs": (), "outputs": ()} | changes))


def error_of(batch: RecordedBatch, index: int = 0) -> InferenceError:
    (response,) = batch.responses_to(index)
    assert response.error is not None
    return response.error
