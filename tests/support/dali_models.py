"""
DALI pipelines, and models loaded by the dali backend without the engine.

This module imports nvidia.dali: tests import it after `pytest.importorskip("nvidia.dali")`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from nvidia import dali
from nvidia.dali import fn

from charonia_runtime.backends import load_backend
from charonia_runtime.backends.dali.library import DATATYPES
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.datatypes import DataType
from tests.support.batches import RecordedBatch, a_batch
from tests.support.configs import a_config
from tests.support.loaded_models import execute

CPU = Placement("m_0", InstanceKind.CPU)
_NUMBERS = {datatype: number for number, datatype in DATATYPES.items()}


def source(name: str, datatype: DataType | None = None, rank: int | None = None) -> Any:
    """An input of a pipeline."""
    dtype = None if datatype is None else dali.types.DALIDataType(_NUMBERS[datatype])
    return fn.external_source(name=name, device="cpu", dtype=dtype, ndim=rank)


def serialized(build: Callable[[], Any], **options: Any) -> bytes:
    """The pipeline that `build` makes, for processors only."""
    pipeline = dali.pipeline_def(build)(**({"batch_size": 8, "num_threads": 1, "device_id": None} | options))
    text: bytes = pipeline.serialize()
    return text


def save(directory: Path, build: Callable[[], Any], **options: Any) -> Path:
    """A model's folder with the pipeline as version 1."""
    (directory / "1").mkdir(parents=True, exist_ok=True)
    (directory / "1" / "model.dali").write_bytes(serialized(build, **options))
    return directory


def dali_config(**changes: Any) -> ModelConfig:
    """Without tensors and batches, unless `changes` say otherwise."""
    return a_config("m", **({"backend": "dali", "max_batch_size": 0, "inputs": (), "outputs": ()} | changes))


class Loaded:
    """A model's folder, loaded, with one instance."""

    def __init__(self, directory: Path, config: ModelConfig, **settings: str) -> None:
        self.backend: Any = load_backend("dali")(ModelFiles(config.name, 1, directory, directory / "1", settings))
        self.config = self.backend.auto_complete(config)

    def load(self) -> "Loaded":
        self.backend.load(self.config)
        self.instance = self.backend.create_instance(CPU)
        return self

    def run(self, *requests: Mapping[str, np.ndarray[Any, Any]], **named: Any) -> RecordedBatch:
        return execute(self.instance, a_batch(self.config, *requests, **named))
