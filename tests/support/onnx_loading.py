"""ONNX models loaded by their backend, without the engine."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from tests.support.batches import RecordedBatch, a_batch
from tests.support.configs import a_config
from tests.support.loaded_models import execute

CPU = Placement("m_0", InstanceKind.CPU)
FP32 = DataType.FP32


class Loaded:
    """A model in one folder, with as many instances as a test wants."""

    def __init__(self, directory: Path, model: bytes, config: ModelConfig, **settings: str) -> None:
        (directory / "1").mkdir(parents=True, exist_ok=True)
        if model:
            (directory / "1" / "model.onnx").write_bytes(model)
        self.backend: Any = load_backend("onnxruntime")(
            ModelFiles(config.name, 1, directory, directory / "1", settings)
        )
        self.config = self.backend.auto_complete(config)

    def load(self) -> "Loaded":
        self.backend.load(self.config)
        self.instance = self.backend.create_instance(CPU)
        return self

    def run(self, *requests: Mapping[str, np.ndarray[Any, Any]], **named: Any) -> RecordedBatch:
        return execute(self.instance, a_batch(self.config, *requests, **named))


Load = Callable[..., Loaded]


def blank(**changes: Any) -> ModelConfig:
    """A configuration that says nothing: auto-complete fills it."""
    return a_config("m", **({"backend": "onnxruntime", "max_batch_size": 0, "inputs": (), "outputs": ()} | changes))


def error_of(batch: RecordedBatch, index: int = 0) -> InferenceError:
    (response,) = batch.responses_to(index)
    assert response.error is not None
    return response.error
