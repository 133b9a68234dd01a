"""What the log says of executions that fail."""

import asyncio
import logging
import re
import time

import numpy as np
import pytest

from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnsupportedError
from charonia_runtime.core.request import InferenceResponse
from charonia_runtime.engine.execution.failures import FailureLog
from charonia_runtime.engine.execution.model import Model
from tests.support.backends import a_folder, fake_backend
from tests.support.configs import a_config, a_tensor
from tests.support.requests import RecordingSink, a_request


async def records_of(tmp_path, caplog, execute, *ids):
    """The records that requests with `ids` leave, one after the other."""
    config = a_config(max_batch_size=4, inputs=(a_tensor("INPUT0"),))
    model = await Model.load(a_folder(tmp_path), config, fake_backend(execute))
    with caplog.at_level(logging.INFO, logger="charonia_runtime.engine.execution.failures"):
        for request_id in ids:
            sink = RecordingSink()
            array = np.zeros((1, 16), np.int32)
            model.submit(a_request(inputs={"INPUT0": array}, sink=sink, id=request_id))
            await sink.wait()
    await model.close()
    return [record for record in caplog.records if record.name.endswith("failures")]


async def test_an_exception_is_told_with_model_version_request_and_traceback(tmp_path, caplog):
    def execute(batch):
        raise ValueError("broken model")

    first, second = await records_of(tmp_path, caplog, execute, "abc", "")
    assert first.levelno == logging.ERROR
    text = first.getMessage()
    assert text.startswith("model 'simple' version 1, request 'abc': broken model\nTraceback (most recent call last):")
    assert 'raise ValueError("broken model")' in text
    assert second.getMessage().startswith("model 'simple' version 1, request without id: broken model\n")


@pytest.mark.parametrize("error", [InternalError("no memory"), UnsupportedError("too few rows")])
async def test_errors_of_backends_are_told(tmp_path, caplog, error):
    def execute(batch):
        batch.fail(error)

    (record,) = await records_of(tmp_path, caplog, execute, "abc")
    assert record.getMessage() == f"model 'simple' version 1, request 'abc': {error.message}"


async def test_answers_that_are_missing_are_told(tmp_path, caplog):
    (record,) = await records_of(tmp_path, caplog, lambda batch: None, "abc")
    assert record.getMessage() == "model 'simple' version 1, request 'abc': expected a single response, got 0"


@pytest.mark.parametrize("chosen_by_model", [True, False])
async def test_errors_that_are_nobody_s_fault_here_are_not_told(tmp_path, caplog, chosen_by_model):
    def execute(batch):
        error = InternalError("as it should be") if chosen_by_model else InvalidArgumentError("client's")
        batch.respond_error(0, error, chosen_by_model=chosen_by_model)

    assert await records_of(tmp_path, caplog, execute, "abc") == []


def failures(ids, make_error):
    """The failed requests of a batch with these ids."""
    return [
        (a_request(id=request_id), InferenceResponse("simple", 1, error=make_error(), failed=True))
        for request_id in ids
    ]


def test_one_record_tells_of_a_batch(caplog):
    error = InternalError("x" * 100_000)
    assert not FailureLog().write(failures([f"r{number}" for number in range(10)], lambda: error), 1)
    (record,) = caplog.records
    text = record.getMessage()
    assert "requests 'r0', 'r1', 'r2', 'r3', 'r4', 'r5', 'r6', 'r7' and 2 more: xxx" in text
    assert len(text) < 20_000


def test_more_failures_in_a_second_are_counted(caplog):
    log, batch = FailureLog(), failures([""] * 100, lambda: InternalError("each its own"))
    second = 1_000_000_000

    assert log.write(batch, second), "somebody must come back for the count"
    assert not log.write(batch, second + 1), "once is enough"
    assert len(caplog.records) == 5
    log.write_count()
    assert caplog.records[-1].getMessage() == "model 'simple' version 1: 195 more requests failed within a second"
    assert log.write(batch, 2 * second)
    assert len(caplog.records) == 11


async def test_a_model_that_fails_often_does_not_fill_the_log(tmp_path, caplog):
    def execute(batch):
        for index in range(len(batch.requests)):
            batch.respond_error(index, InternalError("each its own"))

    told = len(await records_of(tmp_path, caplog, execute, *map(str, range(100))))
    deadline = time.monotonic() + 30
    while told + sum(map(int, re.findall(r"(\d+) more requests failed within a second", caplog.text))) < 100:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert told < 100


def test_ids_cannot_forge_lines_nor_fill_the_log(caplog):
    FailureLog().write(failures(["a\nE1122 fatal", "b" * 10_000], lambda: InternalError("no memory")), 1)
    assert [record.getMessage()[:70] for record in caplog.records] == [
        "model 'simple' version 1, request 'a%0AE1122%20fatal': no memory",
        f"model 'simple' version 1, request '{'b' * 35}",
    ]
    assert len(caplog.records[1].getMessage()) < 130
