"""The contract's models for the `identity` backend."""

from pathlib import Path

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_config, a_tensor

LIBRARY = ""
DATATYPES = tuple(datatype for datatype in DataType if datatype is not DataType.INVALID)


def passing(directory: Path, datatype: DataType, *, max_batch_size: int = 8) -> ModelConfig:
    return a_config(
        max_batch_size=max_batch_size,
        inputs=(a_tensor("INPUT0", datatype, -1), a_tensor("INPUT1", datatype, -1)),
        outputs=(a_tensor("OUTPUT0", datatype, -1), a_tensor("OUTPUT1", datatype, -1)),
    )


def optional(directory: Path) -> ModelConfig:
    return a_config(
        max_batch_size=0,
        inputs=(a_tensor("INPUT0", DataType.FP32, -1), a_tensor("INPUT1", DataType.FP32, -1, optional=True)),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, -1),),
    )


def failing(directory: Path) -> ModelConfig | None:
    return None
