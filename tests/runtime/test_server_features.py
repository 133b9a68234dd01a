"""A whole server with a response cache, a rate limiter and traces, as its command line asks for them."""

import json
import queue
import socket
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.processes import ServerProcess, charonia
from tests.support.repositories import write_model

ARRAY = np.arange(4, dtype=np.int32).reshape(1, 4)
RECEIVED = {"http": ["HTTP_RECV_START", "HTTP_RECV_END"], "grpc": ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END"]}
SENT = {"http": ["HTTP_SEND_START", "HTTP_SEND_END"], "grpc": ["GRPC_SEND_START", "GRPC_SEND_END"]}
COMPUTED = ["COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"]


@pytest.fixture
def repository(tmp_path):
    write_model(tmp_path / "models")
    write_model(tmp_path / "models", "cached", config="response_cache { enable: true }")
    return tmp_path / "models"


def tensor(module):
    given = module.InferInput("INPUT", [1, 4], "INT32")
    given.set_data_from_numpy(ARRAY)
    return given


def ask(server, model, wire="http", request_id=""):
    module = {"http": tritonclient.http, "grpc": tritonclient.grpc}[wire]
    with module.InferenceServerClient(getattr(server, wire)) as client:
        answer = client.infer(model, [tensor(module)], request_id=request_id)
        assert answer.as_numpy("OUTPUT").tolist() == ARRAY.tolist()


def stream(server, model, request_id):
    answers = queue.Queue()
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(model, [tensor(tritonclient.grpc)], request_id=request_id)
        _, error = answers.get(timeout=10)
        client.stop_stream()
    assert error is None


def traces_of(path):
    """Request id → the names of its timestamps, in their order."""
    elements = json.loads(path.read_text())
    names = {element["id"]: element["request_id"] for element in elements if "request_id" in element}
    found = {name: [] for name in names.values()}
    for element in elements:
        if "timestamps" in element:
            found[names[element["id"]]].append(element["timestamps"][0]["name"])
    return found


def test_traces_of_every_way_in(repository, tmp_path):
    file = tmp_path / "trace.json"
    flags = ["--trace-config=level=TIMESTAMPS", "--trace-config=rate=1", f"--trace-config=triton,file={file}"]
    with ServerProcess(repository, tmp_path / "log", *flags, "--cache-config=local,size=100000") as server:
        for wire in ("http", "grpc"):
            ask(server, "simple", wire, wire)
        stream(server, "simple", "stream")
        ask(server, "cached", request_id="miss")
        ask(server, "cached", request_id="hit")
        with pytest.raises(tritonclient.utils.InferenceServerException, match="unknown model"):
            ask(server, "none")

    found = traces_of(file)

    begun, ended = ["REQUEST_START", "QUEUE_START", "INFER_RESPONSE_COMPLETE"], ["REQUEST_END"]
    for name, wire in (("http", "http"), ("grpc", "grpc"), ("stream", "grpc"), ("miss", "http")):
        assert found[name] == [*RECEIVED[wire], *begun, *COMPUTED, *ended, *SENT[wire]]
    assert found["hit"] == [*RECEIVED["http"], *begun, *ended, *SENT["http"]]


def test_traces_of_generate(tmp_path):
    write_model(
        tmp_path / "models",
        "text",
        base="""
            backend: "identity"
            input [{ name: "TEXT" data_type: TYPE_STRING dims: [1] }]
            output [{ name: "OUT" data_type: TYPE_STRING dims: [1] }]
        """,
    )
    file = tmp_path / "trace.json"
    flags = ["--trace-config=level=TIMESTAMPS", "--trace-config=rate=1", f"--trace-config=triton,file={file}"]
    with ServerProcess(tmp_path / "models", tmp_path / "log", *flags) as server:
        for verb in ("generate", "generate_stream"):
            body = json.dumps({"id": verb, "TEXT": "hello"}).encode()
            assert server.request("POST", f"/v2/models/text/{verb}", body)[0] == 200

    found = traces_of(file)

    run = ["REQUEST_START", "QUEUE_START", "INFER_RESPONSE_COMPLETE", *COMPUTED, "REQUEST_END"]
    for verb in ("generate", "generate_stream"):
        assert found[verb] == [*RECEIVED["http"], *run, *SENT["http"]]


def test_traces_begin_and_end_by_the_settings_of_one_model(repository, tmp_path):
    file = tmp_path / "trace.json"
    with ServerProcess(repository, tmp_path / "log", f"--trace-config=triton,file={file}") as server:
        ask(server, "simple", request_id="before")
        with tritonclient.http.InferenceServerClient(server.http) as client:
            client.update_trace_settings("simple", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
            ask(server, "simple", request_id="while")
            ask(server, "cached", request_id="other")
            client.update_trace_settings("simple", {"trace_level": ["OFF"]})
        ask(server, "simple", request_id="after")

    assert list(traces_of(file)) == ["while"]


class Collector(BaseHTTPRequestHandler):
    """Takes spans by OTLP."""

    def do_POST(self):
        request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.put([span.name for span in scope.spans])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.spans = queue.Queue()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def exporting_to(port):
    url = f"http://127.0.0.1:{port}/v1/traces"
    settings = ("mode=opentelemetry", "level=TIMESTAMPS", "rate=1", f"opentelemetry,url={url}")
    return [f"--trace-config={setting}" for setting in settings]


def test_spans_are_exported_as_often_as_the_environment_says(repository, tmp_path, collector, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with ServerProcess(repository, tmp_path / "log", *exporting_to(collector.server_port)) as server:
        ask(server, "simple")
        assert collector.spans.get(timeout=20) == ["compute", "simple", "InferRequest"]
        with tritonclient.http.InferenceServerClient(server.http) as client:
            assert client.get_trace_settings()["bsp_schedule_delay"] == "50"


def test_a_collector_that_hangs_does_not_keep_the_server(repository, tmp_path):
    """The exporter itself would wait for ten seconds, and get an error that says something else."""
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        ServerProcess(
            repository, tmp_path / "log", *exporting_to(deaf.getsockname()[1]), "--exit-timeout-secs=1"
        ) as server,
    ):
        ask(server, "simple")
        assert server.stop() == 0
        assert "traces are lost: there is no time left to wait for them" in server.log


def test_the_hook_of_tests_holds_requests_until_there_is_company(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", "3")
    write_model(repository, config="dynamic_batching { }")
    with (
        ServerProcess(repository, tmp_path / "log") as server,
        tritonclient.http.InferenceServerClient(server.http, concurrency=3) as client,
    ):
        waiting = [client.async_infer("simple", [tensor(tritonclient.http)]) for _ in range(3)]
        for answer in waiting:
            assert answer.get_result().as_numpy("OUTPUT").tolist() == ARRAY.tolist()
        (statistics,) = client.get_inference_statistics("simple")["model_stats"]
    assert (statistics["inference_count"], statistics["execution_count"]) == (3, 1)


def test_the_cache_and_the_limiter_of_the_command_line(repository, tmp_path):
    flags = [
        "--cache-config=local,size=100000", "--rate-limit=execution_count", "--rate-limit-resource=R:1",
    ]  # fmt: skip
    write_model(
        repository,
        "limited",
        config='instance_group { kind: KIND_CPU rate_limiter { resources { name: "R" count: 1 } } }',
    )
    with ServerProcess(repository, tmp_path / "log", *flags) as server:
        for _ in range(3):
            ask(server, "cached")
            ask(server, "limited", "grpc")
        with urllib.request.urlopen(f"http://{server.metrics}/metrics") as response:
            metrics = response.read().decode()

    assert 'nv_cache_num_hits_per_model{model="cached",version="1"} 2' in metrics
    assert "nv_cache_num_entries 1" in metrics
    assert 'nv_inference_exec_count{model="limited",version="1"} 3' in metrics
    assert "EXEC_COUNT" in server.log


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (
            ["--cache-config=foo,size=1"],
            "error: creating server: Invalid argument - unable to find 'libtritoncache_foo.so'",
        ),
        (["--cache-config=local,a=b"], "error: creating server: Invalid argument - Failed to initialize LocalCache"),
        (["--cache-config=local,size=1", "--response-cache-byte-size=1"], "Error: Incompatible flags"),
        (["--rate-limit-resource=R1"], "--rate-limit-resource option format is"),
    ],
)
def test_what_the_command_line_cannot_have(repository, flags, text):
    ended = charonia("serve", f"--model-repository={repository}", *flags)

    assert ended.returncode == 1
    assert text in ended.stderr
