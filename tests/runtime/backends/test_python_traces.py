"""What models see of the record of their requests, and what they pass on to models that they call."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.engine.engine import Engine
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from charonia_runtime.engine.trace_options import TraceStart
from charonia_runtime.logs import Log, LogOptions
from tests.support.batches import RecordedBatch, a_batch
from tests.support.fake_server import FakeServer, echo_config
from tests.support.python_models import ECHO, PythonModel, an_echo_config, write_model
from tests.support.requests import RecordingSink, a_request
from tests.support.traces import KeptTraces, TraceMaker

CONFIG = an_echo_config(DataType.FP32, name="caller", outputs=an_echo_config(DataType.BYTES).outputs)
CALLER = """
    def execute(self, requests):
        responses = []
        for request in requests:
            trace = request.trace()
            kind = int(request.inputs()[0].as_numpy()[0])
            linked = {{1: {{"trace": trace}}, 2: {{"trace": pb_utils.InferenceTrace()}}}}.get(kind, {{}})
            call = pb_utils.InferenceRequest(
                model_name="echo", requested_output_names=[], inputs=[pb_utils.Tensor("INPUT", np.zeros(1))], **linked
            )
            {call}
            text = str(trace.get_context()).encode()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([text], np.object_))]))
        return responses
"""


@pytest.fixture
def kept() -> KeptTraces:
    return KeptTraces()


async def called(
    directory: Path, kept: KeptTraces, kind: int, *, traced: bool, call: str = "call.exec()"
) -> tuple[RecordedBatch, FakeServer]:
    server = FakeServer()
    server.add(echo_config())
    batch = a_batch(CONFIG, {"IN": np.float32([kind])})
    if traced:
        request = batch.requests[0]
        request.trace = TraceMaker(kept).trace()
        request.trace.follow(request, ensemble=False)
    async with PythonModel(directory, CALLER.format(call=call), config=CONFIG, server=server) as model:
        return await model.execute(batch), server


@pytest.mark.parametrize(("kind", "linked"), [(0, False), (1, True), (2, False)])
async def test_calls_made_with_the_trace_are_recorded_below_it(
    tmp_path: Path, kept: KeptTraces, kind: int, linked: bool
) -> None:
    batch, server = await called(tmp_path, kept, kind, traced=True)
    (request,) = server.requests
    assert batch.arrays_of(0)["OUT"].tolist() == [b'{"trace":1}']
    assert (request.trace is not None) is linked
    if request.trace is not None:
        assert (request.trace.parent_id, request.trace.model_name) == (1, "echo")


@pytest.mark.parametrize("kind", [0, 1])
async def test_requests_that_are_not_recorded_have_no_context(tmp_path: Path, kept: KeptTraces, kind: int) -> None:
    batch, server = await called(tmp_path, kept, kind, traced=False)
    assert batch.arrays_of(0)["OUT"].tolist() == [b"None"]
    assert server.requests[0].trace is None


async def test_a_trace_is_a_trace(tmp_path: Path, kept: KeptTraces) -> None:
    call = """
            try:
                pb_utils.InferenceRequest(model_name="echo", requested_output_names=[], inputs=[], trace="no")
            except TypeError:
                continue
"""
    batch, server = await called(tmp_path, kept, 0, traced=True, call=call)
    error = batch.responses_to(0)[0].error
    assert error is not None
    assert "InferenceResponse(s) size is:0" in error.message
    assert server.requests == []


async def test_a_server_records_a_call_once(tmp_path: Path, kept: KeptTraces) -> None:
    """From the client's request through the model that calls to the one that is called, as the engine runs them."""
    for name, body in (("caller", CALLER.format(call="call.exec()")), ("echo", ECHO.replace('"IN"', '"INPUT"'))):
        write_model(tmp_path / name, body)
    (tmp_path / "caller" / "config.pbtxt").write_text(
        'backend: "python" input [{ name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }]'
        'output [{ name: "OUT" data_type: TYPE_STRING dims: [ -1 ] }]'
    )
    (tmp_path / "echo" / "config.pbtxt").write_text(
        'backend: "python" input [{ name: "INPUT" data_type: TYPE_FP64 dims: [ -1 ] }]'
        'output [{ name: "OUT" data_type: TYPE_FP64 dims: [ -1 ] }]'
    )
    engine = Engine(
        EngineOptions(model_repositories=(str(tmp_path),)), load_backend, Model.load,
        shared_memory=SharedMemoryRegistry(), settings=partial(SettingsStore, Log(LogOptions()), TraceStart()),
    )  # fmt: skip
    await engine.start()
    try:
        sink = RecordingSink()
        request = a_request("caller", {"IN": np.float32([1])}, sink=sink)
        request.trace = TraceMaker(kept).trace()
        engine.submit(request)
        response = await sink.response()
        request.trace.end()
    finally:
        await engine.stop()
    assert response.error is None
    assert [(trace.model_name, trace.id, trace.parent_id) for trace in kept.traces] == [
        ("echo", 2, 1),
        ("simple", 1, 0),
    ]
    assert all(trace.times and trace.start_ns and trace.end_ns and trace.model_version == 1 for trace in kept.traces)
