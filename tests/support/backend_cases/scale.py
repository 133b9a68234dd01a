"""The contract's models for `scale`, the example of a backend that users write."""

import json
from pathlib import Path
from typing import Any

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_config, a_tensor

LIBRARY = ""
DIRECTORY = Path(__file__).parents[3] / "runtime" / "examples" / "backends"
DATATYPES = tuple(
    datatype
    for datatype in DataType
    if datatype not in {DataType.INVALID, DataType.BYTES, DataType.BF16, DataType.BOOL}
)


def passing(directory: Path, datatype: DataType, *, max_batch_size: int = 8) -> ModelConfig:
    _write(directory, 1)
    return a_config(
        backend="scale",
        max_batch_size=max_batch_size,
        inputs=(a_tensor("INPUT0", datatype, -1), a_tensor("INPUT1", datatype, -1)),
        outputs=(a_tensor("OUTPUT0", datatype, -1), a_tensor("OUTPUT1", datatype, -1)),
    )


def failing(directory: Path) -> ModelConfig | None:
    _write(directory, [1] * 7)
    return a_config(
        backend="scale",
        inputs=(a_tensor("INPUT0", DataType.FP32, -1),),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, 7),),
    )


def _write(directory: Path, factor: Any) -> None:
    (directory / "1").mkdir(parents=True)
    (directory / "1" / "model.json").write_text(json.dumps({"factor": factor}))
