"""Models of iterative sequences: a request that is released to be rescheduled comes again."""

from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.scheduling import SequenceBatching
from tests.support.python_models import PythonModel, an_echo_config

ITERATIVE = SequenceBatching(iterative=True)
ONE_OF_TWO = """
    def execute(self, requests):
        responses = []
        for request in requests:
            array = request.inputs()[0].as_numpy()
            if array[0] > 0:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                responses.append(None)
            else:
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]))
        return responses
"""
STEPS = """
    def execute(self, requests):
        for request in requests:
            array = request.inputs()[0].as_numpy()
            last = array[0] == 0
            flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if last else 0
            if not last:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            request.get_response_sender().send(
                pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]), flags=flags
            )
"""


async def test_rescheduled_requests_have_no_response(tmp_path: Path) -> None:
    config = an_echo_config(max_batch_size=0, scheduling=ITERATIVE)
    async with PythonModel(tmp_path, ONE_OF_TWO, config=config) as model:
        batch = await model.run(np.float32([1]), np.float32([0]), np.float32([2]))
    assert batch.rescheduled == [0, 2]
    assert batch.complete
    assert [len(batch.responses_to(index)) for index in range(3)] == [0, 1, 0]


@pytest.mark.parametrize("execute", ["def execute", "async def execute"])
async def test_decoupled_models_answer_each_step(tmp_path: Path, execute: str) -> None:
    config = an_echo_config(decoupled=True, scheduling=ITERATIVE)
    async with PythonModel(tmp_path, STEPS.replace("def execute", execute), config=config) as model:
        batch = await model.run(np.float32([1]), np.float32([0]))
        again = await model.run(np.float32([0]))
    assert (batch.rescheduled, again.rescheduled) == ([0], [])
    assert [[response.final for response in batch.responses_to(index)] for index in range(2)] == [[False], [True]]
    assert [response.final for response in again.responses_to(0)] == [True]


@pytest.mark.parametrize("decoupled", [False, True])
async def test_other_models_cannot_reschedule(tmp_path: Path, decoupled: bool) -> None:
    config = an_echo_config(decoupled=decoupled)
    async with PythonModel(tmp_path, STEPS if decoupled else ONE_OF_TWO, config=config) as model:
        batch = await model.run(np.float32([1]))
    error = batch.responses_to(0)[-1].error
    assert isinstance(error, InternalError)
    assert error.message.endswith("only models with iterative sequences can reschedule requests.")
