"""`--backend-config=python,…`: what it changes, and what makes no sense."""

from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.backends.python import Backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.errors import InferenceError, InvalidArgumentError
from charonia_runtime.ipc.segments import STARTED_BYTES
from tests.support.python_models import PythonModel


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"shm-default-byte-size": "1000"}, "shm-default-byte-size can't be smaller than 4 MiBs"),
        ({"shm-growth-byte-size": "0"}, "shm-growth-byte-size can't be smaller than or equal to zero."),
        ({"shm-region-prefix-name": ""}, "shm-region-prefix-name must at least contain one character."),
        ({"thread-pool-size": "0"}, "thread-pool-size can't be less than 1."),
        ({"unload-timeout-seconds": "-1"}, "unload-timeout-seconds can't be smaller than zero."),
        ({"stub-timeout-seconds": "soon"}, "stub-timeout-seconds must be an integer, found 'soon'"),
    ],
)
def test_settings_that_make_no_sense(tmp_path: Path, settings: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Backend(ModelFiles("echo", 1, tmp_path, tmp_path / "1", settings))
    assert caught.value.message == text


async def test_settings_have_their_effect(tmp_path: Path) -> None:
    settings = {
        "shm-default-byte-size": str(8 << 20),
        "shm-growth-byte-size": str(3 << 20),
        "shm_message_queue_size": "9",
    }
    async with PythonModel(tmp_path, settings=settings) as model:
        assert model.instance._stub.arena.byte_size == (4 << 20) - STARTED_BYTES
        await model.run(np.zeros(1_250_000, np.float32))
        assert model.instance._stub.arena.byte_size == ((4 + 6) << 20) - STARTED_BYTES


async def test_a_child_that_does_not_start_in_time(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    settings = {"python-runtime": str(slow), "stub-timeout-seconds": "1"}
    with pytest.raises(InferenceError, match="Timed out occurred while waiting for the stub process"):
        await PythonModel(tmp_path, settings=settings).__aenter__()
