"""A model's own `is_ready`."""

import asyncio
import logging
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.backends.python import readiness
from tests.support.python_models import ECHO, PythonModel, until

SWITCHED = (
    ECHO
    + """
    def is_ready(self):
        return os.path.exists(os.path.join(pb_utils.get_model_dir(), "ready"))
"""
)


async def test_the_model_says_when_it_is_ready(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, SWITCHED) as model:
        assert not await model.instance.agrees()
        (tmp_path / "1" / "ready").touch()
        assert await model.instance.agrees()
        (tmp_path / "1" / "ready").unlink()
        assert not await model.instance.agrees()
        assert model.instance.ready
        assert await model.echoes()


async def test_a_model_without_a_say_is_not_asked(tmp_path: Path) -> None:
    async with PythonModel(tmp_path) as model:
        model.instance._stub.ask_readiness = None
        assert await model.instance.agrees()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("def is_ready(self): return False", "Model 'echo_0' is not ready (user-defined check failed)."),
        ("def is_ready(self): return 1", "is_ready() must return a boolean value"),
        ("def is_ready(self): return None", "is_ready() must return a boolean value"),
        ("def is_ready(self): raise ValueError('no')", "ValueError: no"),
        ("def is_ready(self): sys.exit(3)", "SystemExit: 3"),
        ("async def is_ready(self): raise ValueError('no')", "ValueError: no"),
        ("is_ready = 5", "TypeError: 'int' object is not callable"),
    ],
)
async def test_anything_but_true_is_no(
    tmp_path: Path, function: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "charonia_runtime")
    async with PythonModel(tmp_path, f"{ECHO}\n    {function}\n") as model:
        for _ in range(3):
            assert not await model.instance.agrees()
        assert await model.echoes()
    (message,) = caplog.messages
    assert reason in message


@pytest.mark.parametrize("execute", ["def execute", "async def execute"])
async def test_a_coroutine_may_wait_on_one_loop(tmp_path: Path, execute: str) -> None:
    body = (
        ECHO.replace("def execute", execute)
        + """
    loops = set()

    async def is_ready(self):
        import asyncio
        self.loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0.001)
        return len(self.loops) == 1
"""
    )
    async with PythonModel(tmp_path, body) as model:
        assert await model.instance.agrees()
        assert await model.echoes()
        assert await model.instance.agrees()


async def test_it_is_asked_while_the_model_executes(tmp_path: Path) -> None:
    body = """
    asked = threading.Event()

    def execute(self, requests):
        self.asked.wait()
        return [pb_utils.InferenceResponse([]) for _ in requests]

    def is_ready(self):
        self.asked.set()
        return True
"""
    async with PythonModel(tmp_path, body) as model:
        running = asyncio.create_task(model.run(np.zeros(1, np.float32)))
        await asyncio.sleep(0)
        assert await model.instance.agrees()
        await running


async def test_one_question_at_a_time_answers_all_who_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        ECHO
        + """
    calls = 0

    def is_ready(self):
        type(self).calls += 1
        while not os.path.exists(os.path.join(pb_utils.get_model_dir(), "go")):
            time.sleep(0.002)
        return self.calls == 1
"""
    )
    async with PythonModel(tmp_path, body) as model:
        monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.05)
        assert not await model.instance.agrees()
        monkeypatch.undo()
        asking = [asyncio.create_task(model.instance.agrees()) for _ in range(5)]
        await asyncio.sleep(0)
        (tmp_path / "1" / "go").touch()
        assert await asyncio.gather(*asking) == [True] * 5
        assert not await model.instance.agrees()


async def test_a_check_that_hangs_delays_nobody_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.01)
    caplog.set_level(logging.WARNING, "charonia_runtime")
    async with PythonModel(tmp_path, f"{ECHO}\n    def is_ready(self): threading.Event().wait()\n") as model:
        assert await asyncio.gather(*[model.instance.agrees() for _ in range(3)]) == [False] * 3
        assert await model.echoes()
    assert "Timed out waiting for user-defined is_ready() response" in caplog.messages[0]


async def test_who_gives_up_asking_does_not_stop_the_others(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, SWITCHED) as model:
        (tmp_path / "1" / "ready").touch()
        first, second = (asyncio.create_task(model.instance.agrees()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second


async def test_a_child_that_dies_meanwhile_is_not_ready(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, f"{ECHO}\n    def is_ready(self): os._exit(1)\n") as model:
        assert not await model.instance.agrees()
        await until(lambda: not model.instance.ready)
        assert not await model.instance.agrees()
        await until(lambda: model.instance.ready)
