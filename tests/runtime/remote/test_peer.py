"""Both ends of a link: what frontends ask reaches the server, and whoever dies leaves nothing behind."""

import asyncio
import gc
import os

import numpy as np
import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, NotFoundError, UnavailableError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.remote.peer import Peers
from tests.support.fake_server import FakeServer, answer, echo_config, end
from tests.support.remote_servers import connected
from tests.support.requests import RecordingSink

LARGE = np.arange(3_000_000, dtype=np.float32)
"""Copied in a thread, on both ways."""


def a_request(array=None, sink=None, **changes):
    given = np.zeros(2, np.float32) if array is None else array
    inputs = {"INPUT": Tensor.from_numpy("INPUT", given)}
    return InferenceRequest("echo", inputs, sink or RecordingSink(), **changes)


class Gate:
    """A client that reads when it is told to."""

    def __init__(self):
        self.waiting = []

    def when_ready(self, resume):
        self.waiting.append(resume)

    def read(self):
        waiting, self.waiting = self.waiting, []
        for resume in waiting:
            resume()


class Recorded:
    """A trace and who makes it."""

    active = True

    def __init__(self):
        self.sampled = []
        self.notes = []
        self.ended = asyncio.Event()

    def sample(self, model, parent):
        self.sampled.append((model, parent))
        return self

    def note(self, name, ns):
        self.notes.append((name, ns))

    def end(self):
        self.ended.set()


@pytest.fixture
def server():
    server = FakeServer()
    server.add(echo_config())
    return server


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what the other end does sets no event
            await asyncio.sleep(0)


async def test_large_tensors_and_what_follows_them(server):
    """A cancellation does not overtake the request whose tensors are still being copied."""
    async with connected(server) as link:
        sink = RecordingSink()
        link.server.submit(a_request(LARGE, sink))
        [response] = await sink.wait()
        np.testing.assert_array_equal(response.outputs[0].as_numpy(), LARGE)

        server.add(echo_config(), lambda request: None)
        request = a_request(LARGE)
        link.server.submit(request)
        link.server.cancel(request)
        await server.cancel_arrived.wait()
        assert server.cancelled == server.requests[1:]


async def test_shared_memory_is_used_again(server):
    """Blocks come back when their tensors are gone, on both ends."""
    async with connected(server) as link:
        server.record = False
        for _ in range(20):
            sink = RecordingSink()
            link.server.submit(a_request(LARGE[:500_000], sink))
            await sink.wait()
            sink.responses.clear()
        for arena in (link.server._link._arena, link.peer._link._arena):
            assert arena.byte_size < 60 << 20


async def test_responses_come_in_order_whatever_their_size(server):
    arrays = [LARGE, np.zeros(1, np.float32), LARGE, np.ones(1, np.float32)]
    server.add(echo_config(), lambda request: [*(answer(request, {"OUTPUT": one}) for one in arrays), end(request)])
    async with connected(server) as link:
        sink = RecordingSink()
        link.server.submit(a_request(sink=sink))
        responses = await sink.wait()
    assert [response.outputs[0].element_count for response in responses[:-1]] == [3_000_000, 1, 3_000_000, 1]
    assert responses[-1].flag_only


async def test_a_refusal_is_marked(server):
    server.submit_error = InvalidArgumentError("no")
    async with connected(server) as link:
        sink = RecordingSink()
        link.server.submit(a_request(sink=sink))
        [response] = await sink.wait()
    assert response.refused
    assert isinstance(response.error, InvalidArgumentError)


async def test_what_no_frame_can_hold_is_refused_at_once(server):
    async with connected(server) as link:
        with pytest.raises(InvalidArgumentError, match="the request cannot be read"):
            link.server.submit(a_request(timeout_us=1 << 64))


async def test_a_response_that_cannot_be_sent_is_an_error(server, monkeypatch):
    server.add(echo_config(), lambda request: [
        InferenceResponse("echo", 1, "", [Tensor("x" * 40_000, DataType.UINT8, (1,), memoryview(b"a"))])
    ])  # fmt: skip
    async with connected(server) as link:
        sink = RecordingSink()
        link.server.submit(a_request(sink=sink))
        [response] = await sink.wait()
    assert isinstance(response.error, InternalError)
    assert response.final


async def test_a_slow_client_holds_its_model_back(server):
    server.add(echo_config(), lambda request: None)
    async with connected(server) as link:
        sink, gate = RecordingSink(), Gate()
        link.server.submit(a_request(sink=sink, flow=gate))
        await server.submitted.wait()
        [request] = server.requests
        sent = 0

        def send_more():
            nonlocal sent
            sent += 1
            if sent <= 50:
                request.sink.send(InferenceResponse("echo", 1, final=False))
                request.flow.when_ready(send_more)

        send_more()
        await until(lambda: len(sink.responses) == 8 and len(gate.waiting) == 8)
        assert sent == 8
        while sent <= 50:
            await until(lambda: gate.waiting)
            gate.read()
            await asyncio.sleep(0)
        assert sent == 51


async def test_when_the_frontends_die_their_requests_are_cancelled(server):
    server.add(echo_config(), lambda request: None)
    async with connected(server) as link:
        gate, resumed = Gate(), []
        link.server.submit(a_request(flow=gate))
        await server.submitted.wait()
        [request] = server.requests
        for _ in range(8):
            request.sink.send(InferenceResponse("echo", 1, final=False))
        request.flow.when_ready(lambda: resumed.append(True))
        link.server._link.close()
        await server.cancel_arrived.wait()
        await until(lambda: link.closed == ["peer"])
        assert server.cancelled == [request]
        assert resumed == [True]
        request.sink.send(InferenceResponse("echo", 1))


async def test_when_the_server_dies_everybody_is_told(server):
    server.add(echo_config(), lambda request: None)
    async with connected(server) as link:
        sink = RecordingSink()
        link.server.submit(a_request(sink=sink))
        calling = asyncio.create_task(link.server.is_live())
        await asyncio.sleep(0)
        link.peer._link.close()
        [response] = await sink.wait()
        assert isinstance(response.error, UnavailableError)
        with pytest.raises(UnavailableError, match="the server is gone"):
            await calling
        assert link.closed == ["server"]
        with pytest.raises(UnavailableError, match="the server is gone"):
            link.server.submit(a_request())
        with pytest.raises(UnavailableError, match="the server is gone"):
            await link.server.is_live()


async def test_a_model_that_was_loaded_is_known_everywhere_before_the_caller_hears_of_it(server):
    async def load(name, **_):
        server.add(echo_config(name))

    server.load_model = load
    peers = Peers()
    async with connected(server, peers) as one, connected(server, peers) as other:
        with pytest.raises(NotFoundError):
            other.server.find_model("new")
        await one.server.load_model("new")
        assert other.server.find_model("new").config.name == "new"
        assert one.server.find_model("new").config.name == "new"


async def test_settings_that_a_process_follows_reach_all(server):
    peers = Peers()
    async with connected(server, peers) as one, connected(server, peers) as other:
        assert [log["log_info"] for log in other.logs] == [True]
        await one.server.settings.update_log({"log_info": False})
        await until(lambda: [log["log_info"] for log in other.logs] == [True, False])
        assert not other.server.tracing.active
        server.tracing = Recorded()
        await one.server.settings.update_trace({"trace_level": ["TIMESTAMPS"]})
        await until(lambda: other.server.tracing.active)


async def test_changes_are_heard_in_their_order_while_large_tensors_are_copied(server):
    """Whatever numbers the requests have."""
    answered = []
    server.add(echo_config(), lambda request: answered.append(request) or [answer(request, {"OUTPUT": LARGE})])
    async with connected(server) as link:
        sinks = [RecordingSink() for _ in range(6)]
        for sink in sinks:
            link.server.submit(a_request(sink=sink))
        await until(lambda: len(answered) == 6)
        for number in range(12):
            server.add(echo_config("changing"), version=number)
        await link.peer.mirrored()
        assert link.server.find_model("changing").version == 11
        for sink in sinks:
            await sink.wait()


async def test_a_bug_in_a_call_shows_nothing(server, caplog):
    server.metadata = None
    async with connected(server) as link:
        with pytest.raises(InternalError, match="unexpected error while answering the request"):
            await link.server.server_metadata()
    assert "TypeError" in caplog.text


async def test_traces_are_recorded_where_the_models_are(server):
    server.tracing = recorded = Recorded()
    async with connected(server) as link:
        assert link.server.tracing.active
        trace = link.server.tracing.sample("echo", "parent")
        trace.note("HTTP_RECV_START", 1)
        sink = RecordingSink()
        link.server.submit(a_request(sink=sink, trace=trace))
        await sink.wait()
        trace.note("HTTP_SEND_END", 2)
        trace.end()
        await recorded.ended.wait()
    assert recorded.sampled == [("echo", "parent")]
    assert recorded.notes == [("HTTP_RECV_START", 1), ("HTTP_SEND_END", 2)]
    assert server.requests[0].trace is recorded


async def test_traces_of_processes_that_die_end(server):
    server.tracing = recorded = Recorded()
    async with connected(server) as link:
        link.server.submit(a_request(trace=link.server.tracing.sample("echo", None)))
        await server.submitted.wait()
        link.server._link.close()
        await recorded.ended.wait()


async def test_answered_requests_leave_nothing_to_the_garbage_collector(server):
    """They carry tensors: they must go when they are answered."""
    server.record = False

    def alive():
        return [one for one in gc.get_objects() if type(one).__name__ in {"_Exchange", "InferenceRequest"}]

    async with connected(server) as link:
        gc.collect()
        before = len(alive())
        gc.disable()
        try:
            for model in ("echo", "nothing"):
                sink = RecordingSink()
                request = a_request(sink=sink, flow=Gate())
                request.model_name = model
                link.server.submit(request)
                del request
                await sink.wait()
            assert len(alive()) == before
        finally:
            gc.enable()


async def test_nothing_of_a_link_is_left(server):
    """Neither descriptors nor memory."""

    async def use():
        async with connected(server) as link:
            for connection in (link,):
                sink = RecordingSink()
                connection.server.submit(a_request(LARGE, sink))
                await sink.wait()
        server.requests.clear()

    def held():
        gc.collect()
        with open("/proc/self/maps") as maps:  # noqa: PTH123
            return len(os.listdir("/proc/self/fd")), maps.read().count("/dev/shm")  # noqa: PTH208

    await use()
    before = held()
    for _ in range(3):
        await use()
    assert held() == before
