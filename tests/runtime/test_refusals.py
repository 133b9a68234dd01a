"""Refused requests leave nothing behind: an error that is kept with its traceback keeps its request's body."""

import asyncio
import gc
import gzip
import struct
from functools import partial

import h2.events
import numpy as np
import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.engine.engine import Engine
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from charonia_runtime.engine.trace_options import TraceStart
from charonia_runtime.frontends.v2_grpc import Options
from charonia_runtime.frontends.v2_grpc.health import HealthWatch
from charonia_runtime.frontends.v2_grpc.inference import InferenceCalls
from charonia_runtime.frontends.v2_grpc.router import Router
from charonia_runtime.frontends.v2_grpc.transports.http2.handler import Handler
from charonia_runtime.logs import Log, LogOptions
from tests.support.grpc_calls import SERVICE, message
from tests.support.http2 import Client
from tests.support.http_client import http_frontend
from tests.support.python_models import until

REFUSALS = 10
IDENTITY = """
backend: "identity"
input [{ name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }]
"""
BROKEN_ENSEMBLE = """
platform: "ensemble"
input [{ name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }]
ensemble_scheduling { step [{
  model_name: "ident" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }
}] }
"""


@pytest.fixture
def models(tmp_path):
    for name, text in (("ident", IDENTITY), ("around", BROKEN_ENSEMBLE)):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(text)
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "config.pbtxt").write_text('backend: "onnxruntime"')
    (tmp_path / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    return tmp_path


@pytest.fixture
async def engine(models):
    shared_memory = SharedMemoryRegistry()
    engine = Engine(
        EngineOptions(model_repositories=(str(models),), model_control_mode="explicit", load_model=("ident", "around")),
        load_backend,
        partial(Model.load, resolve_memory=shared_memory.resolve),
        shared_memory=shared_memory,
        settings=partial(SettingsStore, Log(LogOptions()), TraceStart()),
    )
    await engine.start()
    yield engine
    await engine.stop()


def tensor(data="[1.0]", shape="[1]", datatype="FP32", name="IN"):
    return f'{{"inputs":[{{"name":"{name}","datatype":"{datatype}","shape":{shape},"data":{data}}}]}}'.encode()


INFER = "/v2/models/ident/infer"
LARGE = ",".join(map(str, range(40_000)))
HTTP = {
    "broken JSON": (INFER, b"{", {}),
    "large broken JSON": (INFER, tensor(f"[{LARGE},x]", "[40001]"), {}),
    "wrong count": (INFER, tensor("[1.0]", "[2]"), {}),
    "wrong large count": (INFER, tensor(f"[{LARGE}]", "[2]"), {}),
    "wrong type": (INFER, tensor(datatype="INT8"), {}),
    "wrong name": (INFER, tensor(name="X"), {}),
    "wrong name of an ensemble": ("/v2/models/around/infer", tensor(name="X"), {}),
    "unknown model": ("/v2/models/no/infer", tensor(), {}),
    "bad version": ("/v2/models/ident/versions/x/infer", tensor(), {}),
    "bomb": (INFER, gzip.compress(bytes(80_000_000), 1), {"Content-Encoding": "gzip"}),
    "broken gzip": (INFER, gzip.compress(np.random.default_rng(1).bytes(90_000))[:-9], {"Content-Encoding": "gzip"}),
    "compressed broken JSON": (INFER, gzip.compress(np.random.default_rng(1).bytes(9000)), {"Content-Encoding": "gzip"}),
    "unknown encoding": (INFER, tensor(), {"Content-Encoding": "br"}),
    "wrong length of the header": (INFER, tensor(), {"Inference-Header-Content-Length": "99999"}),
    "raw of a wrong size": (INFER, b"abc", {"Inference-Header-Content-Length": "0"}),
    "generate": ("/v2/models/ident/generate", b'{"IN": "x"}', {}),
    "load of a broken model": ("/v2/repository/models/broken/load", b"{}", {}),
    "load of an unknown model": ("/v2/repository/models/no/load", b"{}", {}),
    "load of a broken file": (
        "/v2/repository/models/broken/load", b'{"parameters":{"config":"{}","file:1/model.onnx":"!"}}', {}
    ),
    "unknown region": ("/v2/systemsharedmemory/region/x/register", b'{"key":"/no","offset":0,"byte_size":4}', {}),
}  # fmt: skip


def kept(before=()):
    """Our errors that live and hold frames, but for those in `before`: other tests may have left some."""
    known = {id(one) for one in before}
    return [
        one
        for one in gc.get_objects()
        if isinstance(one, Exception)
        and type(one).__module__.startswith("charonia_runtime")
        and one.__traceback__
        and id(one) not in known
    ]


@pytest.mark.parametrize("kind", HTTP)
async def test_refusals_over_http_keep_no_traceback(engine, kind):
    path, body, headers = HTTP[kind]
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"POST {path} HTTP/1.1\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body
    async with http_frontend(engine) as client, client.connect() as connection:
        await connection.send(request)
        assert (await connection.answer()).status >= 400
        gc.collect()
        before = kept()
        gc.disable()
        try:
            for _ in range(REFUSALS):
                await connection.send(request)
                await connection.answer()
            await connection.send(b"GET /v2/health/live HTTP/1.1\r\n\r\n")
            await connection.answer()
            await asyncio.sleep(0)
            assert not kept(before)
        finally:
            gc.enable()


def framed(data, flag=0):
    return struct.pack(">BI", flag, len(data)) + data


def grpc(document, flag=0, pack=bytes):
    return framed(pack(message({"model_name": "ident", **document})), flag)


ONE = {"name": "IN", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1.0]}}
MANY = {"name": "IN", "datatype": "FP32", "shape": [7], "contents": {"fp32_contents": [1.0] * 300_000}}
GRPC = {
    "no message": framed(b"\xff\xff"),
    "unknown model": grpc({"model_name": "no"}),
    "bad version": grpc({"model_version": "x"}),
    "wrong count": grpc({"inputs": [{**ONE, "shape": [2]}]}),
    "wrong large count": grpc({"inputs": [MANY]}),
    "wrong name": grpc({"inputs": [{**ONE, "name": "X"}]}),
    "wrong name of an ensemble": grpc({"model_name": "around", "inputs": [{**ONE, "name": "X"}]}),
    "bomb": framed(gzip.compress(bytes(80_000_000), 1), 1),
    "broken gzip": framed(gzip.compress(np.random.default_rng(1).bytes(90_000))[:-9], 1),
    "compressed refusal": grpc({"inputs": [MANY]}, 1, gzip.compress),
}


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
@pytest.mark.parametrize("kind", GRPC)
async def test_refusals_over_grpc_keep_no_traceback(engine, kind, method):
    chosen = Options()
    watch = HealthWatch(engine)
    client = Client(Handler(chosen, Router(engine, InferenceCalls(engine, chosen), watch, chosen)))
    usual = {
        ":method": "POST", ":scheme": "http", ":path": f"{SERVICE}/{method}", ":authority": "host", "te": "trailers",
        "content-type": "application/grpc", "grpc-encoding": "gzip",
    }  # fmt: skip
    body = GRPC[kind]

    async def refuse():
        stream_id = client.request(body, fields=list(usual.items()))
        await until(lambda: has_ended(client, stream_id))

    await refuse()
    gc.collect()
    before = kept()
    gc.disable()
    try:
        for _ in range(REFUSALS):
            await refuse()
        await asyncio.sleep(0)
        assert not kept(before)
    finally:
        gc.enable()


def has_ended(client, stream_id):
    client.exchange()
    return any(event.stream_id == stream_id for event in client.saw(h2.events.StreamEnded))
