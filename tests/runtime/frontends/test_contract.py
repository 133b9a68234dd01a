"""What every frontend of the v2 protocol must do, over each wire with its own client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import numpy as np
import pytest
import pytest_asyncio
from tritonclient.utils import InferenceServerException

from charonia_runtime.core.access import AccessTokens
from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import ERROR_CLASSES, ErrorCode, InternalError, InvalidArgumentError
from charonia_runtime.core.request import ANY_VERSION, SequenceId
from charonia_runtime.core.server import IndexEntry, InferenceServer
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from tests.support.fake_server import FakeServer, answer, echo_config, end, failure
from tests.support.remote_servers import connected
from tests.support.wires import WIRES, Wire

pytestmark = pytest.mark.asyncio(loop_scope="session")
"""grpc.aio has one poller for all event loops of a process, which stumbles over events for loops that are closed."""

ARRAYS = {
    "BOOL": np.array([True, False, True]),
    "UINT8": np.array([0, 7, 255], np.uint8),
    "UINT16": np.array([0, 7, 65535], np.uint16),
    "UINT32": np.array([0, 7, 2**32 - 1], np.uint32),
    "UINT64": np.array([0, 7, 2**64 - 1], np.uint64),
    "INT8": np.array([-128, 0, 127], np.int8),
    "INT16": np.array([-(2**15), 0, 2**15 - 1], np.int16),
    "INT32": np.array([-(2**31), 0, 2**31 - 1], np.int32),
    "INT64": np.array([-(2**63), 0, 2**63 - 1], np.int64),
    "FP16": np.array([-1.5, 0, 65504], np.float16),
    "FP32": np.array([-1.5, 0.1, 3e38], np.float32),
    "FP64": np.array([-1.5, 0.1, 1e308], np.float64),
    "BYTES": np.array([b"", b"text", b"\xff\x00"], np.object_),
}


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest_asyncio.fixture(loop_scope="session", params=["here", "remote"])
async def reached(request: pytest.FixtureRequest, server: FakeServer) -> AsyncIterator[InferenceServer]:
    """The server as frontends reach it: in their own process, or in another one."""
    if request.param == "here":
        yield server
        return
    async with connected(server) as link:
        yield link.server


@pytest_asyncio.fixture(loop_scope="session", params=sorted(WIRES))
async def wire(request: pytest.FixtureRequest, reached: InferenceServer) -> AsyncIterator[Wire]:
    async with WIRES[request.param](reached) as wire:
        yield wire


@pytest.fixture
def access_tokens() -> AccessTokens:
    return AccessTokens(["one", "two"])


@pytest_asyncio.fixture(loop_scope="session", params=sorted(WIRES))
async def guarded(
    request: pytest.FixtureRequest, server: FakeServer, reached: InferenceServer, access_tokens: AccessTokens
) -> AsyncIterator[Wire]:
    """A wire that lets only clients in that have one of the tokens."""
    server.add(echo_config())
    async with WIRES[request.param](reached, access_tokens) as wire:
        yield wire


@pytest.mark.parametrize("datatype", sorted(ARRAYS))
async def test_every_datatype_comes_back_as_it_went(wire: Wire, server: FakeServer, datatype: str) -> None:
    server.add(echo_config("echo", DataType(datatype)))
    array = ARRAYS[datatype]
    result = await wire.client.infer("echo", [wire.input("INPUT", array, datatype)])
    returned = result.as_numpy("OUTPUT")
    assert returned.dtype == array.dtype
    np.testing.assert_array_equal(returned, array)


async def test_large_tensors_come_back_as_they_went(wire: Wire, server: FakeServer) -> None:
    server.add(echo_config("echo", DataType.FP32, (-1, -1)))
    array = np.random.default_rng(1).standard_normal((200, 600)).astype(np.float32)
    for _ in range(3):
        result = await wire.client.infer("echo", [wire.input("INPUT", array, "FP32")])
        np.testing.assert_array_equal(result.as_numpy("OUTPUT"), array)


async def test_the_server_gets_the_request_as_it_was_sent(wire: Wire, server: FakeServer) -> None:
    server.add(echo_config(), version=3)
    await wire.client.infer(
        "echo",
        [wire.input("INPUT", np.zeros((2, 1), np.float32), "FP32")],
        model_version="3",
        request_id="seven",
        sequence_id=42,
        sequence_start=True,
        priority=2,
        timeout=5000,
        outputs=[wire.module.InferRequestedOutput("OUTPUT", class_count=4)],
        parameters={"text": "a", "number": -5, "flag": True},
    )
    [request] = server.requests
    assert (request.model_name, request.model_version, request.id) == ("echo", 3, "seven")
    assert request.sequence == SequenceId(42, start=True)
    assert (request.priority, request.timeout_us) == (2, 5000)
    assert request.parameters == {"text": "a", "number": -5, "flag": True}
    assert [(output.name, output.classes) for output in request.outputs] == [("OUTPUT", 4)]
    assert request.inputs["INPUT"].shape == (2, 1)


async def test_without_a_version_the_server_chooses(wire: Wire, server: FakeServer) -> None:
    server.add(echo_config(), version=1)
    server.add(echo_config(), lambda request: [answer(request, {"OUTPUT": np.zeros(1)}, version=2)], version=2)
    result = await wire.client.infer("echo", [wire.input("INPUT", np.zeros(1, np.float32), "FP32")])
    assert server.requests[0].model_version == ANY_VERSION
    response = result.get_response()
    assert (response["model_version"] if isinstance(response, dict) else response.model_version) == "2"


async def test_shared_memory_travels_as_references(wire: Wire, server: FakeServer) -> None:
    """The server is told the places; an answer that lies in one has no bytes."""
    place = SharedMemoryRef("out", 16, 32)
    server.add(echo_config(), lambda request: [
        answer(request, {"OUTPUT": Tensor("OUTPUT", DataType.FP32, (4,), place)})
    ])  # fmt: skip
    tensor = wire.module.InferInput("INPUT", [4], "FP32")
    tensor.set_shared_memory("in", 16, 8)
    output = wire.module.InferRequestedOutput("OUTPUT")
    output.set_shared_memory("out", 16, 32)
    result = await wire.client.infer("echo", [tensor], outputs=[output])
    assert server.requests[0].inputs["INPUT"].data == SharedMemoryRef("in", 16, 8)
    assert server.requests[0].outputs[0].shared_memory == place
    assert result.get_output("OUTPUT") is not None


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_every_error_of_a_model_reaches_the_client(wire: Wire, server: FakeServer, code: ErrorCode) -> None:
    server.add(echo_config(), lambda request: [failure(request, ERROR_CLASSES[code]('said é\n"so"'))])
    with pytest.raises(InferenceServerException) as caught:
        await wire.client.infer("echo", [wire.input("INPUT", np.zeros(1, np.float32), "FP32")])
    assert caught.value.message() == 'said é\n"so"'
    assert str(caught.value.status()) == wire.statuses[code]


async def test_a_refused_request_is_an_error_and_the_next_one_is_served(wire: Wire, server: FakeServer) -> None:
    server.add(echo_config())
    server.submit_error = InvalidArgumentError("not like this")
    inputs = [wire.input("INPUT", np.zeros(1, np.float32), "FP32")]
    with pytest.raises(InferenceServerException, match="not like this"):
        await wire.client.infer("echo", inputs)
    server.submit_error = None
    await wire.client.infer("echo", inputs)


async def test_a_bug_in_the_server_is_an_error_without_its_details(
    wire: Wire, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.add(echo_config())
    server.submit_error = ZeroDivisionError("secret")
    with pytest.raises(InferenceServerException) as caught:
        await wire.client.infer("echo", [wire.input("INPUT", np.zeros(1, np.float32), "FP32")])
    assert "secret" not in caught.value.message()
    assert "Traceback" not in caught.value.message()
    assert str(caught.value.status()) == wire.statuses[ErrorCode.INTERNAL]
    assert "secret" in caplog.text


@pytest.mark.parametrize("count", [0, 2])
async def test_one_response_exactly(wire: Wire, server: FakeServer, count: int) -> None:
    """A model that is not decoupled and answers otherwise has a fault."""
    server.add(
        echo_config(),
        lambda request: [*(answer(request, {"OUTPUT": np.zeros(1)}) for _ in range(count)), end(request)],
    )
    with pytest.raises(InferenceServerException, match=f"expected a single response, got {count}"):
        await wire.client.infer("echo", [wire.input("INPUT", np.zeros(1, np.float32), "FP32")])


async def test_unknown_models_and_versions(wire: Wire, server: FakeServer) -> None:
    server.add(echo_config())
    inputs = [wire.input("INPUT", np.zeros(1, np.float32), "FP32")]
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'other' is not found"):
        await wire.client.infer("other", inputs)
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'echo' version 9 is not found"):
        await wire.client.infer("echo", inputs, model_version="9")


async def test_health(wire: Wire, server: FakeServer) -> None:
    server.add(echo_config())
    server.add(echo_config("waking"), ready=False)
    assert await wire.client.is_server_live()
    assert await wire.client.is_server_ready()
    assert await wire.client.is_model_ready("echo")
    assert not await wire.client.is_model_ready("waking")
    assert not await wire.client.is_model_ready("other")
    server.ready = server.live = False
    assert not await wire.client.is_server_ready()
    assert not await wire.client.is_server_live()


async def test_repository(wire: Wire, server: FakeServer) -> None:
    server.index = [IndexEntry("a"), IndexEntry("b", 1, "READY"), IndexEntry("c", 2, "UNAVAILABLE", "unloaded")]
    await wire.client.load_model("b", config='{"backend":"identity"}', files={"file:1/model.bin": b"\x00\xff"})
    await wire.client.unload_model("b", unload_dependents=True)
    assert server.loads == [("b", '{"backend":"identity"}', {"1/model.bin": b"\x00\xff"})]
    assert server.unloads == [("b", True)]
    server.load_error = InternalError("failed to load 'x', failed to poll from model repository")
    with pytest.raises(InferenceServerException, match="failed to poll"):
        await wire.client.load_model("x")


async def test_regions(wire: Wire, server: FakeServer) -> None:
    await wire.client.register_system_shared_memory("in", "/key", 4096, offset=64)
    region = server.shared_memory.system["in"]
    assert (region.key, region.offset, region.byte_size) == ("/key", 64, 4096)
    with pytest.raises(InferenceServerException, match="'in' already in manager"):
        await wire.client.register_system_shared_memory("in", "/key", 4096)
    await wire.client.unregister_system_shared_memory("in")
    assert not server.shared_memory.system


async def test_many_at_once(wire: Wire, server: FakeServer) -> None:
    """Answers go to those who asked."""
    server.add(ModelConfig("echo", inputs=(TensorSpec("INPUT", DataType.INT64, (1,)),)))

    async def ask(number: int) -> int:
        array = np.array([number], np.int64)
        result = await wire.client.infer("echo", [wire.input("INPUT", array, "INT64")])
        return int(result.as_numpy("OUTPUT")[0])

    assert await asyncio.gather(*map(ask, range(200))) == list(range(200))


async def test_a_client_that_gives_up_has_its_request_cancelled(wire: Wire, server: FakeServer) -> None:
    submitted = asyncio.Event()

    def hold(request: object) -> None:
        submitted.set()

    server.add(echo_config(), hold)
    asking = asyncio.create_task(wire.client.infer("echo", [wire.input("INPUT", np.zeros(1, np.float32), "FP32")]))
    await submitted.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    async with asyncio.timeout(5):
        await server.cancel_arrived.wait()
    assert server.cancelled == server.requests


def ask(wire: Wire, authorization: str | None) -> Awaitable[object]:
    headers = {} if authorization is None else {"authorization": authorization}
    return wire.client.infer("echo", [wire.input("INPUT", np.zeros(1, np.float32), "FP32")], headers=headers)


@pytest.mark.parametrize("authorization", ["one", "two", "Bearer one", "bearer two"])
async def test_clients_with_a_token_are_served(guarded: Wire, server: FakeServer, authorization: str) -> None:
    await ask(guarded, authorization)
    assert len(server.requests) == 1
    assert await guarded.client.get_model_repository_index(headers={"authorization": authorization}) is not None


@pytest.mark.parametrize(
    ("authorization", "message"),
    [
        (None, "an access token is required: send 'Authorization: Bearer <token>', or the token alone"),
        ("three", "the access token is not one that this server accepts"),
        ("Bearer On", "the access token is not one that this server accepts"),
        ("Basic one", "the access token is not one that this server accepts"),
    ],
)
async def test_clients_without_a_token_are_refused(
    guarded: Wire, server: FakeServer, authorization: str | None, message: str
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        await ask(guarded, authorization)
    assert caught.value.message() == message
    assert str(caught.value.status()) == guarded.unauthenticated
    assert not server.requests


async def test_only_health_is_told_to_clients_without_a_token(guarded: Wire, server: FakeServer) -> None:
    client = guarded.client
    assert await client.is_server_live()
    assert await client.is_server_ready()
    assert await client.is_model_ready("echo")
    for call in [
        client.get_server_metadata(), client.get_model_metadata("echo"), client.get_model_config("echo"),
        client.get_inference_statistics(), client.get_model_repository_index(), client.load_model("echo"),
        client.unload_model("echo"), client.get_trace_settings(), client.update_trace_settings("echo", {}),
        client.get_log_settings(), client.update_log_settings({"log_info": False}),
        client.get_system_shared_memory_status(), client.register_system_shared_memory("in", "/key", 1),
        client.unregister_system_shared_memory(), client.get_cuda_shared_memory_status(),
        client.unregister_cuda_shared_memory(),
    ]:  # fmt: skip
        with pytest.raises(InferenceServerException) as caught:
            await call
        assert str(caught.value.status()) == guarded.unauthenticated
    assert not server.loads
    assert not server.unloads
    assert not server.settings.log_changes
    assert not server.shared_memory.system


async def test_a_replaced_token_is_valid_no_more(guarded: Wire, access_tokens: AccessTokens) -> None:
    """On the same connection."""
    await ask(guarded, "one")
    access_tokens.replace(["two", "three"])
    await ask(guarded, "three")
    with pytest.raises(InferenceServerException, match="not one that this server accepts"):
        await ask(guarded, "one")
