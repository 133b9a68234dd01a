"""Models that send their responses themselves: decoupled ones, and others that use the sender."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.batches import RecordedBatch, a_batch
from tests.support.python_models import PythonModel, an_echo_config, until

DECOUPLED = an_echo_config(decoupled=True)
SEND_ALL = """
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for value in request.inputs()[0].as_numpy():
                out = pb_utils.Tensor("OUT", np.array([value], np.float32))
                sender.send(pb_utils.InferenceResponse([out]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def values(batch: RecordedBatch, index: int = 0) -> list[float]:
    return [
        float(response.outputs[0].as_numpy()[0]) for response in batch.responses_to(index) if not response.flag_only
    ]


async def test_responses_come_one_by_one(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, SEND_ALL, config=DECOUPLED) as model:
        batch = await model.run(np.float32([1, 2, 3]), np.float32([]))
    assert values(batch) == [1, 2, 3]
    last = batch.responses_to(0)[-1]
    assert last.final
    assert last.flag_only
    assert [response.flag_only for response in batch.responses_to(1)] == [True]


async def test_threads_send_after_execute_has_returned(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.send, args=(request.get_response_sender(), request)).start()

    def send(self, sender, request):
        for value in request.inputs()[0].as_numpy():
            time.sleep(0.005)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([value], np.float32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        batches = [a_batch(DECOUPLED, {"IN": np.float32([i, i + 1])}) for i in range(3)]
        for batch in batches:
            await model.execute(batch, complete=False)
        assert not batches[-1].complete
        await until(lambda: all(batch.complete for batch in batches))
    assert [values(batch) for batch in batches] == [[0, 1], [1, 2], [2, 3]]


class SlowClient:
    """A `ResponseFlow` that has room when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def when_ready(self, resume: Callable[[], None]) -> None:
        self.waiting.append(resume)


async def test_a_model_does_not_run_ahead_of_a_slow_client(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, SEND_ALL, config=DECOUPLED) as model:
        client = SlowClient()
        batch, quick = (a_batch(DECOUPLED, {"IN": np.arange(100, dtype=np.float32)}) for _ in range(2))
        batch.requests[0].flow = client
        executing = asyncio.create_task(model.execute(batch))
        for sent in range(16, 100, 8):
            await until(lambda sent=sent: len(batch.answers) == sent and client.waiting)  # type: ignore[misc]
            await asyncio.sleep(0.01)
            assert len(batch.answers) == sent
            client.waiting.pop()()
        await executing
        assert values(batch) == list(range(100))
        assert values(await model.execute(quick)) == list(range(100))


SEND_ELSEWHERE = {
    "thread": """
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.send, args=(request.get_response_sender(),)).start()

    def send(self, sender):
        for value in range(100):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([value]))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""",
    "coroutine": """
    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for value in range(100):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([value]))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""",
    "later batch": """
    def initialize(self, args):
        self.senders = []

    def execute(self, requests):
        self.senders += [request.get_response_sender() for request in requests]
        while len(self.senders) > 1:
            sender = self.senders.pop(0)
            for value in range(100):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([value]))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""",
}


@pytest.mark.parametrize("body", SEND_ELSEWHERE.values(), ids=SEND_ELSEWHERE)
async def test_a_slow_client_holds_nobody_else_back(tmp_path: Path, body: str) -> None:
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        slow, other = (a_batch(DECOUPLED, {"IN": np.float32([1])}) for _ in range(2))
        slow.requests[0].flow = SlowClient()
        await model.execute(slow, complete=False)
        await model.execute(other, complete=False)
        await until(lambda: slow.complete)
        assert values(slow) == list(range(100))


async def test_large_responses_wait_for_the_client_at_once(tmp_path: Path) -> None:
    body = SEND_ALL.replace("np.array([value], np.float32)", "np.full(1_000_000, value, np.float32)")
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        client = SlowClient()
        batch = a_batch(DECOUPLED, {"IN": np.arange(4, dtype=np.float32)})
        batch.requests[0].flow = client
        executing = asyncio.create_task(model.execute(batch))
        for sent in range(1, 5):
            await until(lambda: bool(client.waiting))
            assert len(batch.answers) == sent
            client.waiting.pop()()
        await executing


async def test_a_model_that_asks_for_cancellation_costs_nothing(tmp_path: Path) -> None:
    """The child asks once after something was cancelled, for all its requests."""
    body = """
    def execute(self, requests):
        threads = [threading.Thread(target=self.run, args=(request,)) for request in requests]
        for thread in threads:
            thread.start()

    def run(self, request):
        sender = request.get_response_sender()
        for _ in range(1000):
            assert not sender.is_cancelled()
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([0]))]))
        while not request.is_cancelled():
            time.sleep(0.001)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        asked = []
        tell = model.instance._running.tell_cancelled
        model.instance._running.tell_cancelled = lambda frame: (asked.append(frame), tell(frame))
        batch = a_batch(DECOUPLED, *[{"IN": np.float32([1])}] * 3)
        await model.execute(batch, complete=False)
        await until(lambda: len(batch.answers) == 3)
        assert asked == []
        for request in batch.requests[:2]:
            request.cancelled = True
        model.instance.note_cancelled()
        await until(lambda: len(batch.answers) == 5)
        assert len(asked) == 1
        batch.requests[2].cancelled = True
        model.instance.note_cancelled()
        await until(lambda: batch.complete)
        assert len(asked) == 2


async def test_a_slow_client_does_not_outlive_the_child(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, SEND_ALL, config=DECOUPLED) as model:
        client = SlowClient()
        batch = a_batch(DECOUPLED, {"IN": np.arange(100, dtype=np.float32)})
        batch.requests[0].flow = client
        executing = asyncio.create_task(model.execute(batch))
        await until(lambda: len(batch.answers) == 16)
        os.kill(model.instance._stub.pid, signal.SIGKILL)
        await executing
        assert batch.answers[-1][1].error is not None
        for resume in client.waiting:
            resume()


async def test_large_responses_give_their_memory_back(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for value in range(40):
                out = pb_utils.Tensor("OUT", np.full(100_000, value, np.float32))
                sender.send(pb_utils.InferenceResponse([out]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        for _ in range(3):
            batch = await model.run(np.float32([1]))
            assert values(batch) == list(range(40))
            batch.answers.clear()


@pytest.mark.parametrize(
    ("decoupled", "statements", "text"),
    [
        (True, "s.send()", "Inference Response object must be provided when the response flags is set to zero."),
        (True, "s.send(R, flags=7)", "Unable to send response. Unsupported flag provided."),
        (True, "s.send(flags=1); s.send(R)", "Unable to send response. Response sender has been closed."),
        (
            False,
            "s.send(R); s.send(R)",
            "Unable to send response. Non-decoupled model cannot send more than one response.",
        ),
        (
            False,
            "s.send(flags=1)",
            "Unable to send response. Non-decoupled model cannot send complete final before sending a response.",
        ),
    ],
)
async def test_the_sender_refuses_what_triton_refuses(
    tmp_path: Path, decoupled: bool, statements: str, text: str
) -> None:
    body = f"""
    def execute(self, requests):
        R = pb_utils.InferenceResponse([])
        text = "nothing was refused"
        s = requests[0].get_response_sender()
        try:
            {statements}
        except pb_utils.TritonModelException as error:
            text = str(error)
        for response in (R, None):  # end the request in the way that is still allowed
            try:
                s.send(response, 1)
            except pb_utils.TritonModelException:
                pass
        said = pb_utils.Tensor("OUT", np.array([text], np.object_))
        requests[1].get_response_sender().send(pb_utils.InferenceResponse([said]), 1)
"""
    config = an_echo_config(decoupled=decoupled)
    async with PythonModel(tmp_path, body, config=config) as model:
        batch = await model.run(*[np.zeros(1, np.float32)] * 2)
    assert batch.arrays_of(1)["OUT"].tolist() == [text.encode()]


async def test_a_model_that_is_not_decoupled_may_use_the_sender(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        out = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(1, np.float32))])
        first, second, third = requests
        first.get_response_sender().send(out, flags=1)
        sender = second.get_response_sender()
        sender.send(out)
        sender.send(flags=1)
        return [None, None, out]
"""
    async with PythonModel(tmp_path, body) as model:
        batch = await model.run(*[np.zeros(1, np.float32)] * 3)
    assert [values(batch, index) for index in range(3)] == [[1], [1], [1]]
    assert batch.responses_to(1)[-1].flag_only


async def test_a_model_that_is_not_decoupled_may_answer_later(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        for request, seconds in zip(requests, (0.02, 0.01)):
            threading.Timer(seconds, self.answer, (request.get_response_sender(),)).start()
        return None if len(requests) == 1 else [None, None]

    def answer(self, sender):
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(1, np.float32))]), flags=1)
"""
    async with PythonModel(tmp_path, body) as model:
        first = await model.run(*[np.zeros(1, np.float32)] * 2)
        second = await model.run(np.zeros(1, np.float32))
    assert [values(first, index) for index in range(2)] == [[1], [1]]
    assert values(second, 0) == [1]


async def test_returning_something_is_an_error(tmp_path: Path) -> None:
    async with PythonModel(
        tmp_path, "\n    def execute(self, requests):\n        return []\n", config=DECOUPLED
    ) as model:
        assert await model.error() == (
            "Failed to process the request(s) for model 'echo_0', message: Python model 'echo_0' is using the "
            "decoupled mode and the execute function must return None."
        )


async def test_an_exception_ends_what_has_not_ended(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        requests[0].get_response_sender().send(flags=1)
        requests[1].get_response_sender().send(pb_utils.InferenceResponse([]))
        raise ValueError("halfway")
"""
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        batch = await model.run(*[np.zeros(1, np.float32)] * 3)
    assert [response.flag_only for response in batch.responses_to(0)] == [True]
    partial, failed = batch.responses_to(1)
    assert partial.error is None
    assert failed.error is not None
    assert "ValueError: halfway" in failed.error.message
    assert len(batch.responses_to(2)) == 1


async def test_a_forgotten_request_is_ended(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, "\n    def execute(self, requests):\n        pass\n", config=DECOUPLED) as model:
        assert "released a request without sending its final response" in await model.error()


async def test_cancellation_is_seen_while_the_model_runs(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        threading.Thread(target=self.wait, args=(requests[0], requests[0].get_response_sender())).start()

    def wait(self, request, sender):
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([request.is_cancelled()]))]))
        while not sender.is_cancelled():
            time.sleep(0.001)
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([request.is_cancelled()]))]), 1)
"""
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        batch = a_batch(DECOUPLED, {"IN": np.zeros(1, np.float32)})
        await model.execute(batch, complete=False)
        await until(lambda: bool(batch.answers))
        batch.requests[0].cancelled = True
        model.instance.note_cancelled()
        await until(lambda: batch.complete)
    assert values(batch) == [0, 1]


async def test_coroutines_of_decoupled_models_overlap(tmp_path: Path) -> None:
    body = """
    def initialize(self, args):
        self.arrived = 0

    async def execute(self, requests):
        import asyncio
        self.arrived += len(requests)
        while self.arrived < 2:
            await asyncio.sleep(0.001)
        for request in requests:
            request.get_response_sender().send(pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", request.inputs()[0].as_numpy())]), flags=1)
"""
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        batches = [a_batch(DECOUPLED, {"IN": np.float32([i])}) for i in range(2)]
        for batch in batches:
            await model.execute(batch, complete=False)
        await until(lambda: all(batch.complete for batch in batches))
    assert [values(batch) for batch in batches] == [[0], [1]]


@pytest.mark.parametrize("signature", ["def", "async def"])
async def test_what_is_raised_after_the_final_responses_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, signature: str
) -> None:
    body = f"""
    {signature} execute(self, requests):
        for request in requests:
            request.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        raise ValueError("too late to answer")
"""
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        batch = await model.run(np.float32([1]))
        assert [response.flag_only for response in batch.responses_to(0)] == [True]
        await until(lambda: bool(caplog.records))
    text = caplog.records[0].getMessage()
    assert "model 'echo_0', message: raised after the last response: ValueError: too late to answer" in text
    assert text.endswith('raise ValueError("too late to answer")\nValueError: too late to answer')


async def test_what_a_coroutine_raises_ends_what_has_not_ended(tmp_path: Path) -> None:
    body = """
    async def execute(self, requests):
        raise ValueError("no answer")
"""
    async with PythonModel(tmp_path, body, config=DECOUPLED) as model:
        assert "ValueError: no answer" in await model.error()
