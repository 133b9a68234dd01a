"""The contract's models for the `pytorch` backend."""

from pathlib import Path

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_config, a_tensor

LIBRARY = "torch"
# Strings come only in lists.
DATATYPES = tuple(datatype for datatype in DataType if datatype not in {DataType.INVALID, DataType.BYTES})


def passing(directory: Path, datatype: DataType, *, max_batch_size: int = 8) -> ModelConfig:
    from tests.support.torch_models import Pass, scripted

    scripted(directory, Pass())
    return a_config(
        backend="pytorch",
        max_batch_size=max_batch_size,
        inputs=(a_tensor("INPUT0", datatype, -1), a_tensor("INPUT1", datatype, -1)),
        outputs=(a_tensor("OUTPUT0", datatype, -1), a_tensor("OUTPUT1", datatype, -1)),
    )


def failing(directory: Path) -> ModelConfig | None:
    from tests.support.torch_models import Fail, scripted

    scripted(directory, Fail())
    return a_config(
        backend="pytorch",
        inputs=(a_tensor("INPUT0", DataType.FP32, -1),),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, 7),),
    )
