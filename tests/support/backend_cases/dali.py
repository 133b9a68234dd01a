"""The contract's models for the `dali` backend."""

from pathlib import Path

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_config, a_tensor

LIBRARY = "nvidia.dali"
DATATYPES = tuple(
    datatype for datatype in DataType if datatype not in {DataType.INVALID, DataType.BYTES, DataType.BF16}
)


def passing(directory: Path, datatype: DataType, *, max_batch_size: int = 8) -> ModelConfig:
    from tests.support.dali_models import save, source

    save(directory, lambda: (source("INPUT0"), source("INPUT1")))
    return a_config(
        backend="dali",
        max_batch_size=max_batch_size,
        inputs=(a_tensor("INPUT0", datatype, -1), a_tensor("INPUT1", datatype, -1)),
        outputs=(a_tensor("OUTPUT0", datatype, -1), a_tensor("OUTPUT1", datatype, -1)),
    )


def failing(directory: Path) -> ModelConfig | None:
    from tests.support.dali_models import fn, save, source

    save(directory, lambda: fn.reshape(source("INPUT0"), shape=[7]))
    return a_config(
        backend="dali",
        inputs=(a_tensor("INPUT0", DataType.FP32, -1),),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, 7),),
    )
