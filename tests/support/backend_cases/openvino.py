"""The contract's models for the `openvino` backend."""

from pathlib import Path

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_config, a_tensor

LIBRARY = "openvino"
DATATYPES = tuple(
    datatype
    for datatype in DataType
    if datatype not in {DataType.INVALID, DataType.BYTES, DataType.BF16, DataType.FP64}
)


def passing(directory: Path, datatype: DataType, *, max_batch_size: int = 8) -> ModelConfig:
    from tests.support.openvino_models import identity, save

    save(identity(datatype, rank=2 if max_batch_size else 1), directory)
    return a_config(
        backend="openvino",
        max_batch_size=max_batch_size,
        inputs=(a_tensor("INPUT0", datatype, -1), a_tensor("INPUT1", datatype, -1)),
        outputs=(a_tensor("OUTPUT0", datatype, -1), a_tensor("OUTPUT1", datatype, -1)),
    )


def failing(directory: Path) -> ModelConfig | None:
    from tests.support.openvino_models import save, sevens

    save(sevens(), directory)
    return a_config(
        backend="openvino",
        inputs=(a_tensor("INPUT0", DataType.FP32, -1),),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, 7),),
    )
