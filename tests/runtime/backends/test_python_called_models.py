"""Models that call, load and unload other models of the server."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.core.config import InstanceGroup, InstanceKind
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, NotFoundError, UnavailableError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from tests.support.batches import a_batch
from tests.support.fake_server import FakeServer, answer, echo, echo_config, end, failure
from tests.support.python_models import PythonModel, an_echo_config, until

TEXT = an_echo_config(DataType.FP32, name="caller", outputs=an_echo_config(DataType.BYTES).outputs)


def calling(statements: str, signature: str = "def execute") -> str:
    """A model that runs `statements` with the input as `IN` and answers with the text of what they leave in `said`."""
    return f"""
    {signature}(self, requests):
        answers = []
        for request in requests:
            IN = request.inputs()[0].as_numpy()
            {statements}
            out = pb_utils.Tensor("OUT", np.array([str(said)], np.object_))
            answers.append(pb_utils.InferenceResponse([out]))
        return answers

    def call(self, array, model="echo", **more):
        return pb_utils.InferenceRequest(model_name=model, requested_output_names=[],
                                         inputs=[pb_utils.Tensor("INPUT", array)], **more)
"""


@pytest.fixture
def server() -> FakeServer:
    fake = FakeServer()
    fake.add(echo_config())
    fake.add(echo_config("stream"), lambda request: [*_parts(request), end(request)])
    return fake


def _parts(request: InferenceRequest) -> list[InferenceResponse]:
    return [answer(request, {"OUTPUT": np.float32([value])}) for value in request.inputs["INPUT"].as_numpy()]


async def said(model: PythonModel, array: np.ndarray | None = None) -> str:
    batch = await model.run(np.float32([1, 2]) if array is None else array)
    text: bytes = batch.arrays_of(0)["OUT"][0]
    return text.decode()


OUTPUT = "said = response.error().message() if response.has_error() else response.output_tensors()[0].as_numpy().sum()"


@pytest.mark.parametrize("elements", [2, 100_000])
async def test_a_call_answers_with_the_other_model_s_response(
    tmp_path: Path, server: FakeServer, elements: int
) -> None:
    body = calling(f"response = self.call(IN + 1).exec(); {OUTPUT}")
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        for _ in range(5):
            assert float(await said(model, np.zeros(elements, np.float32))) == elements
            server.requests.clear()
        assert model.instance._stub.arena.byte_size <= 6 << 20


async def test_everything_of_a_request_arrives(tmp_path: Path, server: FakeServer) -> None:
    more = "request_id='r', correlation_id='c', flags=3, timeout=5, model_version=1, parameters={'a': 1, 'b': 'x'}"
    body = calling(f"response = self.call(IN, {more}).exec(); {OUTPUT}")
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        await said(model)
    (request,) = server.requests
    assert (request.id, request.timeout_us, request.model_version) == ("r", 5, 1)
    assert request.parameters == {"a": 1, "b": "x"}
    assert request.sequence is not None
    assert (request.sequence.correlation_id, request.sequence.start, request.sequence.end) == ("c", True, True)
    assert request.callers == ("caller",)


async def test_errors_come_back_as_responses(tmp_path: Path, server: FakeServer) -> None:
    server.add(echo_config("failing"), lambda request: [failure(request, UnavailableError("busy"))])
    body = calling(
        "names = {1: 'failing', 2: 'nobody', 3: 'stream', 4: 'echo'};"
        "response = self.call(IN, names[int(IN[0])]).exec();"
        "said = (response.error().message(), str(response.error().code())) if response.has_error() else ''"
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model, np.float32([1])) == str(("busy", "__ErrorCode.UNAVAILABLE"))
        assert await said(model, np.float32([2])) == str(
            (
                (
                    "Model nobody - Error when running inference: Failed for execute the inference request. Model 'nobody' is "
                    "not ready."
                ),
                "__ErrorCode.NOT_FOUND",
            )
        )
        assert "expected a single response, got 2" in await said(model, np.float32([3, 4]))
        server.submit_error = InternalError("refused")
        assert "Model echo - Error when running inference: refused" in await said(model, np.float32([4]))


async def test_a_decoupled_model_needs_a_decoupled_call(tmp_path: Path, server: FakeServer) -> None:
    server.models["stream"][1].config = an_echo_config(name="stream", decoupled=True)
    body = calling(f"response = self.call(IN, 'stream').exec(); {OUTPUT}")
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model) == (
            "Model stream - Error when running inference: Model stream is using the decoupled. The current BLS request "
            "call doesn't support models using the decoupled transaction policy. Please use 'decoupled=True' argument "
            "to the 'exec' or 'async_exec' calls for decoupled models.'"
        )


async def test_responses_of_a_decoupled_call_are_iterated(tmp_path: Path, server: FakeServer) -> None:
    body = calling(
        "responses = self.call(IN, 'stream').exec(decoupled=True);"
        "read = lambda: [[float(t.as_numpy()[0]) for t in r.output_tensors()] for r in responses];"
        "said = (read(), read())"
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        once = [[1.0], [2.0], []]
        assert await said(model) == str((once, once))


async def test_an_iterator_goes_on_where_it_was_left_until_all_is_there(tmp_path: Path, server: FakeServer) -> None:
    body = calling(
        "responses = self.call(IN, 'stream').exec(decoupled=True);"
        "read = lambda r: [float(t.as_numpy()[0]) for t in r.output_tensors()];"
        "said = (read(next(responses)), read(next(iter(responses))), [read(r) for r in responses],"
        " [read(r) for r in responses], read(next(iter(responses))))"
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        said_now = await said(model, np.float32([1, 2, 3]))
    assert said_now == str(([1.0], [2.0], [[3.0], []], [[1.0], [2.0], [3.0], []], [1.0]))


async def test_inputs_have_names_of_their_own(tmp_path: Path, server: FakeServer) -> None:
    body = calling(
        "inputs = [pb_utils.Tensor('INPUT', IN)] * 2;"
        "call = pb_utils.InferenceRequest(model_name='echo', requested_output_names=[], inputs=inputs, request_id='7');"
        "response = call.exec();" + OUTPUT
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        text = "Model echo - Error when running inference: [request id: 7] input 'INPUT' already exists in request"
        assert await said(model) == text
    assert server.requests == []


async def test_an_iterator_that_is_dropped_cancels(tmp_path: Path, server: FakeServer) -> None:
    server.add(echo_config("open"), lambda request: None)
    body = calling("responses = self.call(IN, 'open').exec(decoupled=True); del responses; said = 'dropped'")
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model) == "dropped"
        await until(lambda: bool(server.cancelled))
        server.answer(server.requests[0], [end(server.requests[0])])
        assert await said(model) == "dropped"


async def test_coroutines_call_side_by_side(tmp_path: Path, server: FakeServer) -> None:
    waiting: list[InferenceRequest] = []

    def both(request: InferenceRequest) -> None:
        waiting.append(request)
        if len(waiting) == 3:
            for each in waiting:
                server.answer(each, _parts(each)[:1])

    server.add(echo_config("together"), both)
    body = calling(
        "import asyncio;"
        "responses = await asyncio.gather(*(self.call(IN + n, 'together').async_exec() for n in range(3)));"
        "said = [float(r.output_tensors()[0].as_numpy()[0]) for r in responses]",
        "async def execute",
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model) == "[1.0, 2.0, 3.0]"


async def test_coroutines_may_call_decoupled_models(tmp_path: Path, server: FakeServer) -> None:
    body = calling(
        "responses = await self.call(IN, 'stream').async_exec(decoupled=True);"
        "said = [len(r.output_tensors()) for r in responses]",
        "async def execute",
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model) == "[1, 1, 0]"


async def test_decoupled_calls_of_coroutines_run_side_by_side(tmp_path: Path, server: FakeServer) -> None:
    waiting: list[InferenceRequest] = []

    def respond(request: InferenceRequest) -> list[InferenceResponse] | None:
        waiting.append(request)
        if len(waiting) == 3:
            for held in waiting:
                server.answer(held, [answer(held, {"OUTPUT": held.inputs["INPUT"].as_numpy()})])
        return None

    server.add(echo_config("together"), respond)
    body = calling(
        "import asyncio;"
        "gone = asyncio.ensure_future(self.call(IN, 'stream').async_exec(decoupled=True)); gone.cancel();"
        "first = lambda responses: float(next(responses).output_tensors()[0].as_numpy()[0]);"
        "calls = [self.call(IN + n, 'together').async_exec(decoupled=True) for n in range(3)];"
        "said = [first(responses) for responses in [await call for call in calls]]",
        "async def execute",
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model) == "[1.0, 2.0, 3.0]"


async def test_a_decoupled_call_is_over_when_its_first_response_is_there(tmp_path: Path, server: FakeServer) -> None:
    waiting: list[InferenceRequest] = []

    def respond(request: InferenceRequest) -> None:
        waiting.append(request)

    def release(_: InferenceRequest) -> list[InferenceResponse]:
        (held,) = waiting
        server.answer(held, [answer(held, {"OUTPUT": np.float32([9])})])
        return echo(held)

    server.add(echo_config("late"), respond)
    server.add(echo_config("release"), release)
    body = calling(
        "import asyncio;"
        "late = asyncio.ensure_future(self.call(IN, 'late').async_exec(decoupled=True));"
        "await asyncio.sleep(0.05); early = late.done();"
        "await self.call(IN, 'release').async_exec();"
        "said = [early, [float(r.output_tensors()[0].as_numpy()[0]) for r in await late]]",
        "async def execute",
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model) == "[False, [9.0]]"


@pytest.mark.parametrize("decoupled", [False, True])
async def test_a_call_whose_coroutine_is_cancelled_is_cancelled(
    tmp_path: Path, server: FakeServer, decoupled: bool
) -> None:
    server.add(echo_config("open"), lambda request: None)
    body = calling(
        f"call = self.call(IN, 'open').async_exec(decoupled={decoupled}); call.cancel(); said = 'cancelled'",
        "async def execute",
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model) == "cancelled"
        await until(lambda: bool(server.cancelled))
        server.answer(server.requests[0], [end(server.requests[0])])
        assert await said(model) == "cancelled"


async def test_threads_call_while_the_model_waits_for_them(tmp_path: Path, server: FakeServer) -> None:
    body = calling(
        "from concurrent.futures import ThreadPoolExecutor;"
        "results = list(ThreadPoolExecutor(8).map(lambda n: self.call(IN + n).exec(), range(40)));"
        "said = [float(r.output_tensors()[0].as_numpy()[0]) for r in results] == [n + 1.0 for n in range(40)]"
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model) == "True"


async def test_a_loop_is_refused_when_nobody_is_left_to_answer(tmp_path: Path, server: FakeServer) -> None:
    server.add(TEXT)
    groups = (InstanceGroup("two", InstanceKind.CPU, 2),)
    server.add(an_echo_config(name="twice", instance_groups=groups))
    body = calling(f"response = self.call(IN, 'twice' if IN[0] else 'caller').exec(); {OUTPUT}")
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert "all of its 1 instance(s) wait for the answer of this call (caller -> caller)" in await said(
            model, np.float32([0])
        )
        batch = a_batch(TEXT, {"IN": np.float32([1])})
        batch.requests[0].callers = ("twice",)
        await model.execute(batch)
        assert server.requests[-1].callers == ("twice", "caller")
        batch = a_batch(TEXT, {"IN": np.float32([1])})
        batch.requests[0].callers = ("twice", "other", "twice")
        await model.execute(batch)
        assert b"(twice -> other -> twice -> caller -> twice)" in batch.arrays_of(0)["OUT"][0]


@pytest.mark.parametrize("phase", ["initialize", "finalize"])
async def test_calls_belong_into_execute(
    tmp_path: Path, server: FakeServer, phase: str, capfd: pytest.CaptureFixture[str]
) -> None:
    body = (
        calling("said = ''")
        + f"""
    def {phase}(self, *args):
        try:
            self.call(np.zeros(1)).exec()
        except pb_utils.TritonModelException as error:
            print(error, flush=True)
"""
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server):
        pass
    assert capfd.readouterr().out == "BLS is only supported during the 'execute' function.\n"


async def test_async_exec_needs_an_event_loop(tmp_path: Path, server: FakeServer) -> None:
    body = calling("self.call(IN).async_exec(); said = ''")
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert "RuntimeError: no running event loop" in await model.error()


async def test_models_are_loaded_and_unloaded(tmp_path: Path, server: FakeServer) -> None:
    body = calling(
        "pb_utils.load_model('other', config='{}', files={'file:1/model.py': b'x' * 100000, 'file:empty': b''});"
        "pb_utils.unload_model('other', unload_dependents=True);"
        "said = [pb_utils.is_model_ready('echo'), pb_utils.is_model_ready('echo', '7'), pb_utils.is_model_ready('no')]"
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await said(model) == "[True, False, False]"
    assert server.loads == [("other", "{}", {"file:1/model.py": b"x" * 100000, "file:empty": b""})]
    assert server.unloads == [("other", True)]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (
            "pb_utils.is_model_ready('echo', '-1')",
            (
                "Failed to check model readiness: Failed to process the request for model 'caller_0', message: failed to "
                "get model version from specified version string '-1', version should be an integral value > 0"
            ),
        ),
        (
            "pb_utils.load_model('other')",
            "Failed to load model: Failed to process the request for model 'caller_0', message: failed to load 'other'",
        ),
        (
            "pb_utils.load_model('other', files={'a': 1})",
            "failed to load model 'other', files should be a dictionary of file paths and file contents",
        ),
        (
            "pb_utils.is_model_ready('echo', 'x')",
            (
                "Failed to check model readiness: Failed to process the request for model 'caller_0', message: failed to "
                "get model version from specified version string 'x' (details: stol), version should be an integral value "
                "> 0"
            ),
        ),
    ],
)
async def test_refusals_of_model_control(tmp_path: Path, server: FakeServer, statement: str, text: str) -> None:
    server.load_error = NotFoundError("failed to load 'other'")
    async with PythonModel(tmp_path, calling(f"{statement}; said = ''"), config=TEXT, server=server) as model:
        assert f"TritonModelException: {text}\n" in await model.error()


async def test_initialize_may_load_models(tmp_path: Path, server: FakeServer) -> None:
    body = (
        calling("said = ''")
        + """
    def initialize(self, args):
        pb_utils.load_model("needed")
"""
    )
    async with PythonModel(tmp_path, body, config=TEXT, server=server):
        pass
    assert server.loads == [("needed", None, None)]


async def test_calls_that_a_dead_model_waits_for_are_cancelled(tmp_path: Path, server: FakeServer) -> None:
    server.add(echo_config("open"), lambda request: None)
    body = calling("threading.Timer(0.05, os._exit, (1,)).start(); self.call(IN, 'open').exec(); said = ''")
    async with PythonModel(tmp_path, body, config=TEXT, server=server) as model:
        assert await model.error() == "Stub process 'caller_0' is not healthy."
        assert server.cancelled == server.requests
        server.answer(server.requests[0], [answer(server.requests[0], {"OUTPUT": np.zeros(100_000)})])
        await asyncio.sleep(0)
