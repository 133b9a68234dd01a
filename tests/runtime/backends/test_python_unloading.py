"""Models that are unloaded while they owe answers."""

import asyncio
import logging
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.backends.python.patience import Patience
from charonia_runtime.core.errors import InternalError
from tests.support.batches import a_batch
from tests.support.fake_server import FakeServer, answer, echo_config
from tests.support.python_models import PythonModel, an_echo_config, until

SOON = {"unload-timeout-seconds": "1"}
ENDLESS = """
    def execute(self, requests):
        while True:
            time.sleep(0.01)
"""
GONE = "Stub process 'echo_0' is not healthy."


async def test_an_endless_execution_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "charonia_runtime")
    async with PythonModel(tmp_path, ENDLESS, settings=SOON) as model:
        child = model.instance._stub
        running = asyncio.create_task(model.error())
        await asyncio.sleep(0)
        model.instance.wind_up()
        assert await running == GONE
        assert await model.error() == GONE, "nothing is started for what still waits"
        assert child._process.returncode is not None
    assert [message.partition(":")[0] for message in caplog.messages] == ["echo_0"]


async def test_a_decoupled_request_without_an_end_is_given_up(tmp_path: Path) -> None:
    body = """
    kept = []

    def execute(self, requests):
        self.kept += requests
"""
    async with PythonModel(tmp_path, body, config=an_echo_config(decoupled=True), settings=SOON) as model:
        batch = a_batch(model.config, {"IN": np.zeros(1, np.float32)})
        await model.execute(batch, complete=False)
        model.instance.wind_up()
        await until(lambda: batch.complete)
        (response,) = batch.responses_to(0)
        assert isinstance(response.error, InternalError)


async def test_a_finalize_that_hangs_is_given_up(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, f"{ENDLESS}\n    def finalize(self): self.execute([])\n", settings=SOON):
        pass


async def test_what_waits_for_others_is_not_silent(tmp_path: Path) -> None:
    server = FakeServer()
    server.add(echo_config("other"), lambda request: None)
    body = """
    def execute(self, requests):
        call = pb_utils.InferenceRequest(model_name="other", requested_output_names=[],
                                         inputs=[pb_utils.Tensor("INPUT", np.zeros(1))])
        return [pb_utils.InferenceResponse([]) for _ in requests if not call.exec().has_error()]
"""
    async with PythonModel(tmp_path, body, settings=SOON, server=server) as model:
        running = asyncio.create_task(model.run(np.zeros(1, np.float32)))
        await until(lambda: bool(server.requests))
        (call,) = server.requests
        assert not model.instance._owes_answers()
        server.answer(call, [answer(call, {"OUTPUT": np.zeros(1)})])
        assert (await running).responses_to(0)[0].error is None
        assert not model.instance._owes_answers()


class Watched:
    """What a `Patience` watches."""

    def __init__(self, seconds: float) -> None:
        self.owes = True
        self.given_up = 0
        self.patience = Patience(seconds, lambda: self.owes, self.give_up)

    def give_up(self) -> None:
        self.given_up += 1

    def look(self) -> None:
        """The time is over."""
        timer = self.patience._timer
        assert timer is not None
        timer.cancel()
        self.patience._look()


async def test_patience_ends_when_nothing_is_heard() -> None:
    watched = Watched(60)
    watched.patience.start()
    watched.patience.heard = True
    watched.look()
    assert not watched.given_up
    watched.look()
    assert watched.given_up == 1
    assert watched.patience._timer is None


async def test_patience_does_not_end_with_those_who_owe_nothing() -> None:
    watched = Watched(60)
    watched.owes = False
    watched.patience.start()
    watched.look()
    watched.look()
    watched.owes = True
    watched.look()
    assert not watched.given_up, "it owes something only since then"
    watched.look()
    assert watched.given_up == 1


async def test_endless_patience() -> None:
    watched = Watched(0)
    watched.patience.start()
    assert watched.patience._timer is None
    watched.patience.stop()


async def test_patience_is_stopped() -> None:
    watched = Watched(60)
    watched.patience.start()
    timer = watched.patience._timer
    watched.patience.stop()
    assert timer is not None
    assert timer.cancelled()
