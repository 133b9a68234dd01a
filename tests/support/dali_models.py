"""
DALI pipelines, and models loaded by the dali backend without the engine.

This module imports nvidia.dali: tests import it after `pytest.importorskip("nvidia.dali")`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvidia import dali
from nvidia.dali import fn

from charonia_runtime.backends.dali.library import DATATYPES
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support import loaded_models
from tests.support.configs import a_config

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


class Loaded(loaded_models.Loaded):
    backend_name = "dali"
