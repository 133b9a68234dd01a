"""Models of one test, loaded by the onnxruntime backend."""

from collections.abc import Callable
from pathlib import Path

import pytest

from charonia_runtime.core.config import ModelConfig
from tests.support.onnx_loading import Load, Loaded, blank


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def make(model: bytes, config: ModelConfig | None = None, **settings: str) -> Loaded:
        return Loaded(tmp_path, model, config or blank(), **settings).load()

    return make


@pytest.fixture
def complete(tmp_path: Path) -> Callable[..., ModelConfig]:
    def make(model: bytes, config: ModelConfig | None = None, **settings: str) -> ModelConfig:
        return Loaded(tmp_path, model, config or blank(), **settings).config

    return make
