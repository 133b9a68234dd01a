"""Outputs of `model.py` that are not what the configuration says: clients get them, the log tells of the first."""

import logging
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.backends.python.output_check import OutputCheck
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import ErrorCode, InternalError
from charonia_runtime.ipc.messages import ResponseLayout
from charonia_runtime.ipc.packing import TensorPlace
from tests.support.configs import a_tensor
from tests.support.python_models import PythonModel, an_echo_config

CONFIG = an_echo_config(outputs=(a_tensor("OUT", DataType.FP32, 2, -1),))


def answering(expression: str) -> str:
    return f"""
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor({expression})]) for request in requests]
"""


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("'XX', np.zeros((2, 3), np.float32)", "output 'XX', which is dropped: its configuration has 'OUT'"),
        ("'OUT', np.zeros((2, 3), np.float64)", "output 'OUT' of type FP64: its configuration says FP32"),
        ("'OUT', np.zeros((3, 3), np.float32)", "output 'OUT' of shape [3, 3]: its configuration says [2, -1]"),
        ("'OUT', np.zeros(2, np.float32)", "output 'OUT' of shape [2]: its configuration says [2, -1]"),
    ],
)
async def test_the_first_difference_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, expression: str, told: str
) -> None:
    async with PythonModel(tmp_path, answering(expression), config=CONFIG) as model:
        for _ in range(3):
            batch = await model.run(np.zeros(1, np.float32))
            assert batch.responses_to(0)[0].error is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == f"model 'echo' version 1: model.py answered with {told} (told once a model)"


async def test_outputs_as_configured_are_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    batching = an_echo_config(max_batch_size=8, outputs=(a_tensor("OUT", DataType.FP32, 2, reshape=(1, 2)),))
    for config, shape in ((CONFIG, (2, 5)), (batching, (1, 1, 2))):
        async with PythonModel(tmp_path, answering(f"'OUT', np.zeros({shape}, np.float32)"), config=config) as model:
            await model.run(np.zeros(1, np.float32))
    assert caplog.records == []


@pytest.mark.parametrize(("datatype", "shape", "size"), [(DataType.FP32, (3,), 8), (DataType.BYTES, (-1,), 8)])
def test_bytes_that_cannot_be_those_of_the_shape_are_refused(
    datatype: DataType, shape: tuple[int, ...], size: int
) -> None:
    place = TensorPlace("OUT", datatype, shape, 0, size, 1)
    layout = ResponseLayout((place,), 0, ErrorCode.INTERNAL, None, None)
    with pytest.raises(InternalError, match=r"malformed frame: 8 bytes for output 'OUT'"):
        OutputCheck(CONFIG, 1).check(layout)
