"""The contract's models for the `tensorflow` backend."""

from pathlib import Path

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_config, a_tensor

LIBRARY = "tensorflow"
DATATYPES = tuple(datatype for datatype in DataType if datatype not in {DataType.INVALID, DataType.BF16})


def passing(directory: Path, datatype: DataType, *, max_batch_size: int = 8) -> ModelConfig:
    from tests.support.tensorflow_models import save_pass

    save_pass(directory, datatype, rank=2 if max_batch_size else 1)
    return a_config(
        backend="tensorflow",
        platform="tensorflow_savedmodel",
        max_batch_size=max_batch_size,
        inputs=(a_tensor("INPUT0", datatype, -1), a_tensor("INPUT1", datatype, -1)),
        outputs=(a_tensor("OUTPUT0", datatype, -1), a_tensor("OUTPUT1", datatype, -1)),
    )


def failing(directory: Path) -> ModelConfig | None:
    from tests.support.tensorflow_models import a_signature, a_spec, save, tensorflow

    signature = a_signature(
        lambda first: {"OUTPUT0": tensorflow.reshape(first, [-1, 7])}, a_spec("INPUT0", [None, None])
    )
    save(directory, serving_default=signature)
    return a_config(
        backend="tensorflow",
        platform="tensorflow_savedmodel",
        inputs=(a_tensor("INPUT0", DataType.FP32, -1),),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, 7),),
    )
