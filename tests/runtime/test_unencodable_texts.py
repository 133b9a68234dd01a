"""Texts of a model that UTF-8 cannot carry: every wire answers, and says as much of them as it can."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.support.processes import ServerProcess
from tests.support.python_models import HEAD

HALF = "\\ud800"
"""How the half of a surrogate pair is shown."""
CONFIG = """
backend: "python"
input [{{ name: "IN" data_type: TYPE_STRING dims: [ 1 ] }}]
output [{{ name: "OUT" data_type: TYPE_STRING dims: [ 1 ] }}]
model_transaction_policy {{ decoupled: {decoupled} }}
"""
MODEL = """
    def initialize(self, args):
        family = pb_utils.MetricFamily("odd", "odd \\ud800", pb_utils.MetricFamily.COUNTER)
        self.metric = family.Metric({"label": "a\\ud800b"})
        self.kept = family

    def execute(self, requests):
        self.metric.increment(1)
        answers = []
        for request in requests:
            statement = request.inputs()[0].as_numpy()[0].decode()
            done = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([b"done"], dtype=object))])
            scope = {**globals(), "answer": done}
            exec(statement, scope)
            answers.append(scope["answer"])
        if not DECOUPLED:
            return answers
        for request, answer in zip(requests, answers):
            request.get_response_sender().send(answer, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
BROKEN = """
    def initialize(self, args):
        raise ValueError("no\\ud800")
"""
STATEMENTS = {
    "error": "answer = pb_utils.InferenceResponse(error=pb_utils.TritonError('a\\ud800b'))",
    "exception": "raise ValueError('a\\ud800b')",
    "log": "pb_utils.Logger.log_error('a\\ud800b')",
    "parameters": "answer = pb_utils.InferenceResponse(answer.output_tensors(), None, {'k': 'a\\ud800b'})",
    "output": "answer = pb_utils.InferenceResponse([pb_utils.Tensor('a\\ud800b', np.array([b'x'], dtype=object))])",
    "text": "answer = pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array(['a\\ud800b'], dtype=object))])",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    root = tmp_path_factory.mktemp("texts")
    for name, body in (("one", MODEL), ("many", MODEL), ("broken", BROKEN)):
        (root / "models" / name / "1").mkdir(parents=True)
        decoupled = name == "many"
        (root / "models" / name / "1" / "model.py").write_text(f"DECOUPLED = {decoupled}\n{HEAD}{body}")
        (root / "models" / name / "config.pbtxt").write_text(CONFIG.format(decoupled=str(decoupled).lower()))
    flags = ("--exit-on-error=false", f"--trace-config=triton,file={root}/traces", "--trace-config=rate=1")
    with ServerProcess(root / "models", root / "log", *flags, "--trace-config=level=TIMESTAMPS") as process:
        yield process


def post(server: ServerProcess, path: str, document: Any) -> tuple[int, str]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    with closing(http.client.HTTPConnection(server.http, timeout=10)) as connection:
        connection.request("POST", path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="surrogateescape")


def a_request(statement: str) -> dict[str, Any]:
    return {"inputs": [{"name": "IN", "datatype": "BYTES", "shape": [1], "data": [statement]}]}


def a_message(model: str, statement: str) -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name=model)
    message.inputs.add(name="IN", datatype="BYTES", shape=[1]).contents.bytes_contents.append(statement.encode())
    return message


@pytest.mark.parametrize("case", STATEMENTS)
def test_every_wire_answers(server: ServerProcess, case: str) -> None:
    statement = STATEMENTS[case]
    told = [
        post(server, "/v2/models/one/infer", a_request(statement))[1],
        post(server, "/v2/models/one/generate", {"IN": statement})[1],
        post(server, "/v2/models/many/generate_stream", {"IN": statement})[1],
    ]
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        try:
            told.append(str(stub.ModelInfer(a_message("one", statement), timeout=10)))
        except grpc.RpcError as error:
            assert error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED
            told.append(error.details())
        told += [
            str(stub.ModelStreamInfer(iter([a_message(model, statement)]), timeout=10).next())
            for model in ("one", "many")
        ]
    if case in {"error", "exception", "parameters"}:
        assert [text for text in told if HALF not in text] == []


def test_documents_and_metrics_are_written(server: ServerProcess) -> None:
    status, index = post(server, "/v2/repository/index", {})
    assert status == 200
    assert HALF in index
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        entries = stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(), timeout=10).models
    assert any(HALF in entry.reason for entry in entries)
    with closing(http.client.HTTPConnection(server.metrics, timeout=10)) as connection:
        connection.request("GET", "/metrics")
        assert f'odd{{label="a\\{HALF}b"}}' in connection.getresponse().read().decode()


def test_an_id_of_other_bytes_reaches_the_model(server: ServerProcess) -> None:
    text = json.dumps({"id": "ID", **a_request("pass")}).encode().replace(b"ID", b"\xff")
    status, answer = post(server, "/v2/models/one/infer", text)
    assert (status, "done" in answer) == (200, True)
    assert "\udcff" in answer
