"""Calls that are no inference: health, documents, repository, shared memory, settings."""

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
from tritonclient.utils import InferenceServerException

from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.server import IndexEntry
from charonia_runtime.frontends.v2_grpc import Frontend
from tests.support.fake_server import FakeServer
from tests.support.grpc_calls import GrpcClient, message, refusal

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

ECHO = {"model_name": "echo", "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [2]}]}


def echo_request(**fields: Any) -> bytes:
    return message({**ECHO, "raw_input_contents": ["AACAPwAAAEA="], **fields})


async def test_health(server: FakeServer, client: GrpcClient, frontend: Frontend) -> None:
    check = "/grpc.health.v1.Health/Check"
    assert await client.call("ServerLive") == {"live": True}
    assert await client.call("ServerReady") == {"ready": True}
    assert await client.raw(check, b"") == await client.raw(check, b"\x0a\x03abc") == b"\x08\x01"
    server.ready = server.live = False
    assert await client.call("ServerLive") == await client.call("ServerReady") == {}
    assert await client.raw(check, b"") == b"\x08\x02"
    async with tritonclient.grpc.aio.InferenceServerClient(frontend.address) as user:
        assert not await user.is_server_live()
        assert await user.is_model_ready("echo")
        assert not await user.is_model_ready("echo", "9")
        assert not await user.is_model_ready("")


async def test_the_health_package_understands_the_answer(client: GrpcClient) -> None:
    health_pb2 = pytest.importorskip("grpc_health.v1.health_pb2")
    request = health_pb2.HealthCheckRequest(service="any").SerializeToString()
    answered = health_pb2.HealthCheckResponse.FromString(await client.raw("/grpc.health.v1.Health/Check", request))
    assert answered.status == health_pb2.HealthCheckResponse.SERVING


async def test_watchers_hear_of_changes(server: FakeServer, client: GrpcClient) -> None:
    watching = client.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=30)
    assert await watching.read() == b"\x08\x01"
    server.ready = False
    assert await watching.read() == b"\x08\x02"
    late = client.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"\x0a\x03any", timeout=30)
    assert await late.read() == b"\x08\x02"
    watching.cancel()
    server.ready = True
    assert await late.read() == b"\x08\x01"
    late.cancel()


async def test_watchers_hear_of_the_end(frontend: Frontend, client: GrpcClient) -> None:
    watching = client.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=30)
    assert await watching.read() == b"\x08\x01"
    await frontend.stop(1)
    assert await watching.read() == b"\x08\x02"
    assert await watching.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("path", ["/inference.GRPCInferenceService/Nothing", "/other.Service/Call"])
async def test_unknown_methods(client: GrpcClient, path: str) -> None:
    assert await refusal(client.raw(path, b"")) == (grpc.StatusCode.UNIMPLEMENTED, "")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        _ = [data async for data in client.channel.unary_stream(path)(b"")]
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_documents(server: FakeServer, client: GrpcClient) -> None:
    server.documents["echo"] = {"name": "echo", "max_batch_size": 4}
    assert (await client.call("ServerMetadata"))["name"] == "triton"
    assert (await client.call("ModelMetadata", {"name": "echo"}))["inputs"] == [
        {"name": "INPUT", "datatype": "FP32", "shape": ["-1"]}
    ]
    assert (await client.call("ModelConfig", {"name": "echo"})) == {"config": {"name": "echo", "max_batch_size": 4}}
    assert [entry["name"] for entry in (await client.call("ModelStatistics", {"name": "echo"}))["model_stats"]] == [
        "echo"
    ]
    assert len((await client.call("ModelStatistics"))["model_stats"]) == 3
    assert await refusal(client.call("ModelStatistics", {"name": "nothing"})) == (
        grpc.StatusCode.INVALID_ARGUMENT, "requested model 'nothing' is not available",
    )  # fmt: skip
    assert await refusal(client.call("ModelReady", {"name": "echo", "version": "abc"})) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        (
            "failed to get model version from specified version string 'abc' (details: stol), version should be an integral "
            "value > 0"
        ),
    )


async def test_repository(server: FakeServer, frontend: Frontend) -> None:
    server.index = [IndexEntry("echo", 1, "READY"), IndexEntry("other")]
    async with tritonclient.grpc.aio.InferenceServerClient(frontend.address) as user:
        index = await user.get_model_repository_index()
        assert [(model.name, model.version, model.state) for model in index.models] == [
            ("echo", "1", "READY"),
            ("other", "", ""),
        ]
        await user.load_model("m", config="{}", files={"file:1/model.py": b"\x00"})
        assert server.loads == [("m", "{}", {"1/model.py": b"\x00"})]
        await user.unload_model("m", unload_dependents=True)
        assert server.unloads == [("m", True)]
        server.load_error = InternalError("failed to load 'm', failed to poll from model repository")
        with pytest.raises(InferenceServerException, match="failed to poll from model repository"):
            await user.load_model("m")


async def test_a_load_keeps_nobody_waiting(server: FakeServer, client: GrpcClient) -> None:
    loading, loaded = asyncio.Event(), asyncio.Event()

    async def load_model(name: str, **_: object) -> None:
        loading.set()
        await loaded.wait()

    server.load_model = load_model  # type: ignore[method-assign,assignment]
    call = asyncio.create_task(client.call("RepositoryModelLoad", {"model_name": "m"}))
    await loading.wait()
    assert await client.call("ServerReady") == {"ready": True}
    assert not call.done()
    loaded.set()
    assert await call == {}


async def test_shared_memory(server: FakeServer, frontend: Frontend, client: GrpcClient) -> None:
    async with tritonclient.grpc.aio.InferenceServerClient(frontend.address) as user:
        await user.register_system_shared_memory("r", "/key", 64, offset=8)
        status = await user.get_system_shared_memory_status()
        assert status.regions["r"].offset == 8
        await user.unregister_system_shared_memory("r")
        assert not (await user.get_system_shared_memory_status()).regions
        await user.register_cuda_shared_memory("c", b"AAAA", 1, 64)
        assert (await user.get_cuda_shared_memory_status("c")).regions["c"].device_id == 1
        assert server.shared_memory.handles["c"]
        await user.unregister_cuda_shared_memory()
        assert not server.shared_memory.cuda
    assert await refusal(client.call("SystemSharedMemoryStatus", {"name": "x"})) == (
        grpc.StatusCode.NOT_FOUND, "Unable to find system shared memory region: 'x'",
    )  # fmt: skip


async def test_settings(server: FakeServer, client: GrpcClient) -> None:
    found = await client.call("TraceSetting", {"settings": {"trace_rate": {"value": ["8"]}}, "model_name": "echo"})
    assert found["settings"]["trace_rate"] == {"value": ["8"]}
    assert server.settings.trace_changes == [("echo", {"trace_rate": ("8",)})]
    await client.call("TraceSetting")
    assert len(server.settings.trace_changes) == 1
    for changes in ({"trace_file": {"value": ["x"]}}, {"trace_rate": {"value": ["1", "2"]}}):
        assert await refusal(client.call("TraceSetting", {"model_name": "nope", "settings": changes})) == (
            grpc.StatusCode.INVALID_ARGUMENT, "Request for unknown model : nope",
        )  # fmt: skip
    found = await client.call("LogSettings", {"settings": {"log_info": {"bool_param": False}}})
    assert found["settings"]["log_info"] == {"bool_param": False}
    assert await client.call("LogSettings") == found
    assert server.settings.log_changes == [{"log_info": False}]
