"""A served request leaves nothing for the garbage collector: its rounds would stall every request that comes then."""

import gc
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.engine.engine import Engine
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from charonia_runtime.engine.trace_options import TraceStart
from charonia_runtime.logs import Log, LogOptions
from tests.support.http_client import http_frontend

EXAMPLES = Path(__file__).resolve().parents[2] / "runtime/examples/models"
REQUESTS = 50


@pytest.fixture
async def engine():
    shared_memory = SharedMemoryRegistry()
    engine = Engine(
        EngineOptions(model_repositories=(str(EXAMPLES),)),
        load_backend,
        partial(Model.load, resolve_memory=shared_memory.resolve),
        shared_memory=shared_memory,
        settings=partial(SettingsStore, Log(LogOptions()), TraceStart()),
    )
    await engine.start()
    yield engine
    await engine.stop()


@pytest.mark.parametrize("binary", [True, False])
async def test_requests_over_http_leave_no_cycles(engine, binary):
    image = np.zeros((1, 64), np.float32)
    tensor = {"name": "IMAGE", "datatype": "FP32", "shape": [1, 64]}
    if binary:
        tensor["parameters"] = {"binary_data_size": image.nbytes}
    else:
        tensor["data"] = image.ravel().tolist()
    head = json.dumps(
        {"inputs": [tensor], "outputs": [{"name": "PROBABILITIES", "parameters": {"binary_data": binary}}]}
    )
    body = head.encode() + (image.tobytes() if binary else b"")
    request = (
        f"POST /v2/models/digits/infer HTTP/1.1\r\nInference-Header-Content-Length: {len(head)}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    async with http_frontend(engine) as client, client.connect() as connection:
        for _ in range(3):
            await connection.send(request)
            assert (await connection.answer()).status == 200
        gc.collect()
        gc.disable()
        try:
            for _ in range(REQUESTS):
                await connection.send(request)
                await connection.answer()
            unreachable = gc.collect()
        finally:
            gc.enable()

    # The test's own client may leave a few; a cycle of the server's would leave several objects a request.
    assert unreachable < REQUESTS
