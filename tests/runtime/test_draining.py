"""How a server ends: not ready at once, serving on, and no request lost on the way."""

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http.aio

from tests.support.processes import ServerProcess
from tests.support.service_proxy import ServiceProxy

EXAMPLES = Path(__file__).resolve().parents[2] / "runtime/examples/models"
MODULES = {"http": tritonclient.http.aio, "grpc": tritonclient.grpc.aio}
CLIENTS = {"http": 4, "grpc": 12}
"""More of gRPC: it takes several that send at the same moment to notice a connection that ends without a warning."""
IMAGE = np.zeros((1, 64), np.float32)


def inputs(module):
    tensor = module.InferInput("IMAGE", [1, 64], "FP32")
    tensor.set_data_from_numpy(IMAGE)
    return [tensor]


def test_a_draining_server_is_not_ready_and_serves(tmp_path):
    """A second signal ends the drain."""
    with ServerProcess(EXAMPLES, tmp_path / "log", "--drain-secs=600") as server:
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            assert client.is_server_ready()
            server.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 10
            while client.is_server_ready():
                assert time.monotonic() < deadline

            assert server.get("/v2/health/ready") == (400, b"")
            assert server.get("/v2/health/live")[0] == 200
            assert server.get("/v2/models/digits/ready")[0] == 200
            with grpc.insecure_channel(server.grpc) as channel:
                assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"") == b"\x08\x02"  # NOT_SERVING
            request = (EXAMPLES.parent / "request.json").read_bytes()
            assert server.request("POST", "/v2/models/digits/infer", request)[0] == 200
            assert client.infer("digits", inputs(tritonclient.grpc)).as_numpy("PROBABILITIES").shape == (1, 10)
            assert "Draining for 600 s" in server.log

        assert server.stop() == 0


async def ask_again_and_again(client, module, until):
    """Requests one after the other over one client; how many were answered. Raises at the first that is not."""
    answered = 0
    while not until.is_set():
        result = await client.infer("digits", inputs(module))
        assert result.as_numpy("PROBABILITIES").shape == (1, 10)
        answered += 1
    return answered


@pytest.mark.parametrize("transport", ["http2", pytest.param("grpcio", marks=pytest.mark.slow)])
async def test_no_request_fails_while_servers_are_replaced_under_load(tmp_path, transport):
    """Two servers behind a Service, as a rollout stops one of them: clients keep their connections as they like."""
    async with AsyncExitStack() as stack:
        flags = ["--drain-secs=2", "--exit-timeout-secs=20", f"--grpc-transport={transport}"]
        servers = []
        for name in ("leaving", "staying"):
            server = ServerProcess(EXAMPLES, tmp_path / name, *flags)
            await asyncio.to_thread(server.__enter__)
            stack.push_async_callback(asyncio.to_thread, server.stop)
            servers.append(server)
        leaving, staying = servers
        probes = [leaving.http, staying.http]
        asking, done = [], asyncio.Event()
        for wire, module in MODULES.items():
            endpoints = [getattr(server, wire) for server in (leaving, staying)]
            service = await stack.enter_async_context(ServiceProxy(endpoints, probes))
            for _ in range(CLIENTS[wire]):
                client = await stack.enter_async_context(module.InferenceServerClient(service.address))
                asking.append(asyncio.create_task(ask_again_and_again(client, module, done)))

        await asyncio.sleep(0.5)
        code = await asyncio.to_thread(leaving.stop)
        await asyncio.sleep(0.5)
        done.set()
        answered = await asyncio.gather(*asking)

    assert code == 0
    assert min(answered) > 10


@pytest.mark.parametrize("seconds", ["-1", "soon"])
def test_a_drain_takes_whole_seconds(capsys, seconds):
    from charonia_runtime.cli import run

    assert run(["serve", "--model-repository=x", f"--drain-secs={seconds}"]) == 1

    assert capsys.readouterr().err.startswith('Bad option: "--drain-secs".\n')
