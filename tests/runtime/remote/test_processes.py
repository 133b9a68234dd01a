"""`charonia serve --frontend-processes`: nobody notices, whatever is asked and whoever dies."""

import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import threading
import time

import numpy as np
import psutil
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException, shared_memory

from tests.support.processes import ServerProcess, charonia, free_port, last_message
from tests.support.python_models import write_model as write_python_model
from tests.support.repositories import write_model

FLAG = "--frontend-processes=2"
ALL_SERVE = "HTTP and gRPC are served by 2 processes"
"""What the log says then; a server is live as soon as one of them is."""
MODULES = {"http": tritonclient.http, "grpc": tritonclient.grpc}
LARGE = """
backend: "identity"
input { name: "INPUT" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: [-1] }
"""
REPEAT = """
backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: [1] }
output { name: "OUT" data_type: TYPE_INT32 dims: [1] }
model_transaction_policy { decoupled: true }
"""
REPEAT_BODY = """
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            for number in range(count):
                if request.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([number], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    write_model(models)
    write_model(models, "large", base=LARGE)
    write_model(models, "steps", config="sequence_batching { max_sequence_idle_microseconds: 60000000 }")
    write_model(models, "repeat", base=REPEAT)
    write_python_model(models / "repeat", REPEAT_BODY)
    return models


@pytest.fixture(scope="module")
def split(repository, tmp_path_factory):
    """A server whose frontends are in two processes."""
    log = tmp_path_factory.mktemp("split") / "log"
    with ServerProcess(repository, log, FLAG, "--model-control-mode=explicit", "--load-model=*") as server:
        yield server


@pytest.fixture(scope="module")
def whole(repository, tmp_path_factory):
    """The same in one process."""
    log = tmp_path_factory.mktemp("whole") / "log"
    with ServerProcess(repository, log, "--model-control-mode=explicit", "--load-model=*") as server:
        yield server


def frontends(server):
    """The processes that serve."""
    found = []
    for child in psutil.Process(server.process.pid).children():
        with contextlib.suppress(psutil.Error):  # it is gone by now
            if "frontend" in child.cmdline():
                found.append(child.pid)
    return sorted(found)


def metrics_of(server):
    with contextlib.closing(http.client.HTTPConnection(server.metrics, timeout=10)) as connection:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        return response.status, response.read().decode()


def given(module, array, name="INPUT", datatype="INT32"):
    tensor = module.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    return tensor


ARRAY = np.arange(4, dtype=np.int32).reshape(1, 4)


def ask(server, wire, count=1):
    module = MODULES[wire]
    with module.InferenceServerClient(getattr(server, wire)) as client:
        for _ in range(count):
            answer = client.infer("simple", [given(module, ARRAY)])
            assert answer.as_numpy("OUTPUT").tolist() == ARRAY.tolist()


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- nobody notices ---


@pytest.mark.parametrize("wire", MODULES)
def test_answers(split, wire):
    for _ in range(8):  # the kernel spreads connections over the processes
        ask(split, wire)
    assert len(frontends(split)) == 2


def test_answers_of_all_processes_are_counted_together(split):
    def count(protocol, code):
        status, text = metrics_of(split)
        assert status == 200
        found = [line for line in text.splitlines() if line.startswith("charonia_requests_total")]
        wanted = f'charonia_requests_total{{code="{code}",protocol="{protocol}"}} '
        return sum(int(line.removeprefix(wanted)) for line in found if line.startswith(wanted))

    for protocol, code in (("http", "200"), ("grpc", "OK")):
        before = count(protocol, code)
        for _ in range(8):
            ask(split, protocol)
        until(lambda protocol=protocol, code=code, before=before: count(protocol, code) >= before + 8)


@pytest.mark.parametrize("wire", MODULES)
def test_large_tensors(split, wire):
    module, array = MODULES[wire], np.arange(4_000_000, dtype=np.float32)
    with module.InferenceServerClient(getattr(split, wire)) as client:
        for _ in range(3):
            answer = client.infer("large", [given(module, array, datatype="FP32")])
            np.testing.assert_array_equal(answer.as_numpy("OUTPUT"), array)


def test_sequences_over_any_process(split):
    """Their steps may come to different processes; the model is in one."""
    for step in range(6):
        with tritonclient.http.InferenceServerClient(split.http) as client:
            client.infer(
                "steps",
                [given(tritonclient.http, ARRAY)],
                sequence_id=9,
                sequence_start=step == 0,
                sequence_end=step == 5,
            )


def test_streams_of_decoupled_models(split):
    answers = queue.Queue()
    with tritonclient.grpc.InferenceServerClient(split.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        count = np.array([100], np.int32)
        client.async_stream_infer("repeat", [given(tritonclient.grpc, count, "IN")])
        for number in range(100):
            result, error = answers.get(timeout=20)
            assert error is None
            assert result.as_numpy("OUT").tolist() == [number]
        client.stop_stream()
    body = json.dumps({"IN": 3}).encode()
    status, events = split.request("POST", "/v2/models/repeat/generate_stream", body)
    assert status == 200
    assert [json.loads(event[6:])["OUT"] for event in events.decode().split("\n\n") if event] == [0, 1, 2]


def test_regions_of_one_client_are_known_to_all_processes(split):
    region = shared_memory.create_shared_memory_region("in", f"/charonia-{os.getpid()}", ARRAY.nbytes)
    try:
        shared_memory.set_shared_memory_region(region, [ARRAY])
        for index in range(6):
            with tritonclient.http.InferenceServerClient(split.http) as client:
                if index == 0:
                    client.register_system_shared_memory("in", f"/charonia-{os.getpid()}", ARRAY.nbytes)
                tensor = tritonclient.http.InferInput("INPUT", [1, 4], "INT32")
                tensor.set_shared_memory("in", ARRAY.nbytes)
                assert client.infer("simple", [tensor]).as_numpy("OUTPUT").tolist() == ARRAY.tolist()
        with tritonclient.grpc.InferenceServerClient(split.grpc) as client:
            client.unregister_system_shared_memory("in")
    finally:
        shared_memory.destroy_shared_memory_region(region)


def test_models_are_loaded_for_all_processes(split):
    for _ in range(5):
        split.request("POST", "/v2/repository/models/simple/unload")
        until(lambda: split.get("/v2/models/simple/ready")[0] == 400)
        status, body = split.request("POST", "/v2/models/simple/infer", b"{}")
        assert (status, json.loads(body)["error"]) == (
            404, "Request for unknown model: 'simple' has no available versions"
        )  # fmt: skip
        split.request("POST", "/v2/repository/models/simple/load", b"{}")
        for _ in range(4):
            ask(split, "http")


def control_answers(server):
    """What a server says of itself, but for times and counters."""
    paths = [
        "/v2", "/v2/models/simple", "/v2/models/simple/config", "/v2/models/nothing", "/v2/models/nothing/config",
        "/v2/models/simple/versions/9/config", "/v2/models/nothing/stats", "/v2/logging", "/v2/trace/setting",
        "/v2/systemsharedmemory/status", "/v2/systemsharedmemory/region/nothing/status", "/v2/health/ready",
        "/v2/models/nothing/trace/setting",
    ]  # fmt: skip
    found = {path: server.get(path) for path in paths}
    found["index"] = server.request("POST", "/v2/repository/index")
    found["load"] = server.request("POST", "/v2/repository/models/nothing/load", b"{}")
    found["register"] = server.request(
        "POST", "/v2/systemsharedmemory/region/x/register", b'{"key":"/nothing","offset":0,"byte_size":1}'
    )
    found["statistics"] = server.get("/v2/models/large/stats")[0]
    return found


def test_control_routes_answer_alike(split, whole):
    assert control_answers(split) == control_answers(whole)


def infer_body(**changes):
    tensor = {"name": "INPUT", "datatype": "INT32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    return {"inputs": [{**tensor, **changes}]}


REFUSALS = {
    "an unknown model": ("nothing/infer", infer_body()),
    "an unknown version": ("simple/versions/7/infer", infer_body()),
    "no JSON": ("simple/infer", None),
    "an unknown input": ("simple/infer", infer_body(name="other")),
    "another type": ("simple/infer", infer_body(datatype="FP32")),
    "another shape": ("simple/infer", infer_body(shape=[1, 5], data=[1, 2, 3, 4, 5])),
    "too many rows": ("simple/infer", infer_body(shape=[9, 4], data=[0] * 36)),
    "too little data": ("simple/infer", infer_body(data=[1])),
    "no inputs": ("simple/infer", {"inputs": []}),
    "an unknown output": ("simple/infer", {**infer_body(), "outputs": [{"name": "other"}]}),
    "an output with a separator": ("simple/infer", {**infer_body(), "outputs": [{"name": "a\0b"}]}),
    "no correlation id": ("steps/infer", infer_body()),
    "a sequence that did not start": ("steps/infer", {**infer_body(), "parameters": {"sequence_id": 3}}),
    "a decoupled model": ("repeat/infer", infer_body()),
    "an unknown region": (
        "simple/infer",
        {
            "inputs": [{
                "name": "INPUT", "datatype": "INT32", "shape": [1, 4],
                "parameters": {"shared_memory_region": "nothing", "shared_memory_byte_size": 16},
            }]
        },
    ),
    "generating too little": ("simple/generate", {}),
    "generating from an unknown model": ("nothing/generate_stream", {}),
    "generating a wrong shape": ("simple/generate_stream", {"INPUT": [1]}),
    "generating outside of a sequence": ("steps/generate", {"INPUT": [1, 2, 3, 4]}),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSALS)
def test_refusals_are_the_same_over_http(split, whole, what):
    """Status, content type and body."""
    path, document = REFUSALS[what]
    answers = []
    for server in (split, whole):
        with contextlib.closing(http.client.HTTPConnection(server.http)) as connection:
            connection.request("POST", f"/v2/models/{path}", b"[" if document is None else json.dumps(document))
            response = connection.getresponse()
            answers.append((response.status, response.headers["content-type"], response.read()))
    assert answers[0] == answers[1]
    assert answers[0][0] >= 400


GRPC_REFUSALS = {
    "an unknown model": ("nothing", ARRAY, {}),
    "an unknown version": ("simple", ARRAY, {"model_version": "7"}),
    "another shape": ("simple", np.zeros((1, 5), np.int32), {"request_id": "r"}),
    "too many rows": ("simple", np.zeros((9, 4), np.int32), {}),
    "no correlation id": ("steps", ARRAY, {}),
    "a sequence that did not start": ("steps", ARRAY, {"sequence_id": 3, "request_id": "r"}),
    "an unknown output": ("simple", ARRAY, {"outputs": [tritonclient.grpc.InferRequestedOutput("other")]}),
}


@pytest.mark.parametrize("what", GRPC_REFUSALS)
def test_refusals_are_the_same_over_grpc(split, whole, what):
    """Of single calls, and in streams, which go on."""
    model, array, changes = GRPC_REFUSALS[what]
    told = []
    for server in (split, whole):
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            with pytest.raises(InferenceServerException) as caught:
                client.infer(model, [given(tritonclient.grpc, array)], **changes)
            answers = queue.Queue()
            client.start_stream(lambda result, error, answers=answers: answers.put((result, error)))
            client.async_stream_infer(model, [given(tritonclient.grpc, array)], **changes)
            _, refused = answers.get(timeout=20)
            client.async_stream_infer("simple", [given(tritonclient.grpc, ARRAY)])
            result, error = answers.get(timeout=20)
            assert error is None
            assert result.as_numpy("OUTPUT").tolist() == ARRAY.tolist()
            client.stop_stream()
        told.append((caught.value.status(), caught.value.message(), str(refused)))
    assert told[0] == told[1]


# --- whoever dies ---


class Load:
    """Clients that ask on and on, each over a connection of its own, and what failed."""

    def __init__(self, server, count=8):
        self._server = server
        self._over = threading.Event()
        self.answered = 0
        self.failed = []
        """What each client that could not go on was told."""
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self):
        body = json.dumps(infer_body()).encode()
        try:
            with contextlib.closing(http.client.HTTPConnection(self._server.http, timeout=20)) as connection:
                connection.connect()
                while not self._over.is_set():
                    connection.request("POST", "/v2/models/simple/infer", body)
                    response = connection.getresponse()
                    text = response.read()
                    assert response.status == 200, text
                    self.answered += 1
                    if response.will_close:
                        return
        except (OSError, http.client.HTTPException, AssertionError) as error:
            self.failed.append(error)


def test_a_process_that_is_killed_takes_only_its_own_clients_with_it(repository, tmp_path):
    with ServerProcess(repository, tmp_path / "log", FLAG) as server, Load(server) as load:
        until(lambda: ALL_SERVE in server.log and load.answered > 200)
        killed, left = frontends(server)
        victims = [
            link for link in psutil.Process(killed).net_connections("tcp")
            if link.status == "ESTABLISHED" and link.laddr.port == server.http_port
        ]  # fmt: skip
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(frontends(server)) == 2 and killed not in frontends(server))
        until(lambda: len(load.failed) >= len(victims))
        before = load.answered
        if len(victims) < 8:
            until(lambda: load.answered > before + 50)
        assert left in frontends(server)
        assert not any(isinstance(error, AssertionError) for error in load.failed)
        until(lambda: f"the process {killed} of frontends died (signal SIGKILL), another one is started" in server.log)
        until(lambda: server.log.count("Started HTTPService") == 3)
        for _ in range(10):
            ask(server, "http")
    assert len(load.failed) <= len(victims)


def test_nothing_is_left_of_a_server_that_is_killed(repository, tmp_path):
    server = ServerProcess(repository, tmp_path / "log", FLAG)
    with server:
        children = psutil.Process(server.process.pid).children(recursive=True)
        assert len(frontends(server)) == 2
        with Load(server) as load:
            until(lambda: load.answered > 50)
            server.process.kill()
            server.process.wait()
        _, alive = psutil.wait_procs(children, timeout=20)
        assert not alive


def test_a_server_that_stops_answers_what_is_in_flight(repository, tmp_path):
    """To all who asked before, and goes with all its processes."""
    with ServerProcess(repository, tmp_path / "log", FLAG, "--drain-secs=1") as server:
        children = psutil.Process(server.process.pid).children(recursive=True)
        with Load(server) as load:
            until(lambda: load.answered > 100)
            server.process.send_signal(signal.SIGTERM)
            until(lambda: server.get("/v2/health/ready")[0] == 400)
            assert server.process.wait(30) == 0
        assert not load.failed
        _, alive = psutil.wait_procs(children, timeout=20)
        assert not alive


@pytest.mark.slow
def test_processes_do_not_heed_signals_of_the_terminal(repository, tmp_path):
    with ServerProcess(repository, tmp_path / "log", FLAG) as server:
        until(lambda: ALL_SERVE in server.log)
        before = frontends(server)
        for pid in before:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        ask(server, "http")
        ask(server, "grpc")
        assert frontends(server) == before


# --- the start ---


def test_a_port_that_is_taken(repository):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        flags = (f"--http-port={port}", "--http-address=127.0.0.1", "--allow-grpc=false", "--allow-metrics=false")
        told = [charonia("serve", f"--model-repository={repository}", *flags, *more) for more in ((), (FLAG,))]
    assert [one.returncode for one in told] == [1, 1]
    assert last_message(told[0].stderr) == last_message(told[1].stderr)
    assert f"failed to start HTTP service: Unavailable - Socket '127.0.0.1:{port}' already in use" in told[1].stderr


@pytest.mark.slow
def test_what_a_frontend_cannot_use_is_said_as_ever(repository):
    flags = (
        "--grpc-use-ssl=true", "--grpc-server-cert=/nothing", "--http-port=0", f"--grpc-port={free_port()}",
        "--grpc-address=127.0.0.1", "--allow-metrics=false",
    )  # fmt: skip
    told = [charonia("serve", f"--model-repository={repository}", *flags, *more) for more in ((), (FLAG,))]
    assert [one.returncode for one in told] == [1, 1]
    last = [one.stderr.splitlines()[-1] for one in told]
    assert last[0] == last[1]
    assert last[0].startswith("error: ")


@pytest.mark.slow
def test_two_frontends_at_one_address(repository):
    port = free_port()
    told = charonia(
        "serve", f"--model-repository={repository}", f"--http-port={port}", f"--grpc-port={port}", FLAG,
        "--allow-metrics=false",
    )  # fmt: skip
    assert told.returncode == 1
    assert "The server cannot listen to GRPC requests and HTTP requests at the same address and port" in told.stderr


@pytest.mark.slow
def test_access_tokens_are_followed_by_every_process(repository, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("one\n")
    with ServerProcess(repository, tmp_path / "log", FLAG, f"--access-token-file={tokens}") as server:
        path, body = "/v2/models/simple/infer", json.dumps(infer_body()).encode()
        for _ in range(6):
            assert server.request("POST", path, body)[0] == 401
            assert server.request("POST", path, body, {"authorization": "one"})[0] == 200
        until(lambda: ALL_SERVE in server.log)
        tokens.write_text("other\n")
        until(lambda: server.log.count("the access tokens changed") == 3)
        assert server.request("POST", path, body, {"authorization": "one"})[0] == 401
        assert server.request("POST", path, body, {"authorization": "other"})[0] == 200


@pytest.mark.slow
def test_traces_show_the_frontend_and_the_model(repository, tmp_path):
    file = tmp_path / "trace"
    flags = (f"--trace-config=triton,file={file}", "--trace-config=rate=1", "--trace-config=level=TIMESTAMPS")
    with ServerProcess(repository, tmp_path / "log", FLAG, *flags) as server:
        ask(server, "http")
        ask(server, "grpc")
    names = {stamp["name"] for element in json.loads(file.read_text()) for stamp in element.get("timestamps", ())}
    assert {"HTTP_RECV_START", "HTTP_SEND_END", "GRPC_SEND_END", "QUEUE_START", "COMPUTE_END"} <= names


def test_calls_of_clients_that_leave_are_cancelled(split):
    """A stream that ends in the middle ends its model's work, too."""
    answers = queue.Queue()
    client = tritonclient.grpc.InferenceServerClient(split.grpc)
    client.start_stream(lambda result, error: answers.put((result, error)))
    count = np.array([1_000_000], np.int32)
    client.async_stream_infer("repeat", [given(tritonclient.grpc, count, "IN")])
    answers.get(timeout=20)
    client.stop_stream(cancel_requests=True)
    client.close()
    body = json.dumps({"IN": 1}).encode()
    assert split.request("POST", "/v2/models/repeat/generate_stream", body)[0] == 200  # by the same instance
