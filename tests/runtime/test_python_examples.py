"""Every kind of model that Triton's documentation shows, asked by Triton's clients as the documentation asks them."""

import queue
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from tests.support.processes import ServerProcess
from tests.support.python_examples import write_examples

A = np.float32([1, 2, 3, 4])
B = np.float32([0.5, 1, 2, -4])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    repository = tmp_path_factory.mktemp("models")
    write_examples(repository)
    with ServerProcess(repository, tmp_path_factory.mktemp("log") / "log") as running:
        yield running


def inputs(module: Any, **arrays: np.ndarray[Any, Any]) -> list[Any]:
    made = []
    for name, array in arrays.items():
        tensor = module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        made.append(tensor)
    return made


def infer(server: ServerProcess, model: str, **arrays: np.ndarray[Any, Any]) -> Any:
    with tritonclient.http.InferenceServerClient(server.http) as client:
        return client.infer(model, inputs(tritonclient.http, **arrays))


def stream(server: ServerProcess, model: str, **arrays: np.ndarray[Any, Any]) -> list[int]:
    """The outputs of all responses to one request."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    values = []
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(model, inputs(tritonclient.grpc, **arrays), enable_empty_final_response=True)
        final = False
        while not final:
            result, error = answers.get(timeout=20)
            assert error is None
            response = result.get_response()
            final = response.parameters["triton_final_response"].bool_param
            if response.outputs:
                values.append(int(result.as_numpy("OUT")[0]))
        client.stop_stream()
    return values


def number(value: int) -> np.ndarray[Any, Any]:
    return np.array([value], np.int32)


@pytest.mark.parametrize("model", ["add_sub", "unbatched", "bls_async"])
def test_sums_and_differences(server: ServerProcess, model: str) -> None:
    """Plainly, with a configuration that the model completes, and by asking two other models at once."""
    result = infer(server, model, INPUT0=A, INPUT1=B)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), A + B)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), A - B)


def test_configurations_are_completed(server: ServerProcess) -> None:
    with tritonclient.http.InferenceServerClient(server.http) as client:
        batched, unbatched = (client.get_model_config(model) for model in ("batched", "unbatched"))
        metadata = client.get_model_metadata("batched")
    assert (batched["max_batch_size"], unbatched["max_batch_size"]) == (4, 0)
    assert batched["dynamic_batching"]["preferred_batch_size"] == [4]
    assert "dynamic_batching" not in unbatched
    assert [tensor["shape"] for tensor in metadata["inputs"]] == [[-1, 4]] * 2
    result = infer(server, "batched", INPUT0=np.stack([A, B]), INPUT1=np.stack([B, A]))
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), np.stack([A - B, B - A]))


@pytest.mark.parametrize("model", ["add_sub", "unbatched"])
def test_a_model_calls_the_one_that_the_client_names(server: ServerProcess, model: str) -> None:
    name = np.array([model.encode()], np.object_)
    result = infer(server, "bls_sync", MODEL_NAME=name, INPUT0=A, INPUT1=B)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), A + B)


def test_a_call_that_fails_fails_the_caller(server: ServerProcess) -> None:
    name = np.array([b"undefined"], np.object_)
    with pytest.raises(InferenceServerException, match="Model 'undefined' is not ready") as caught:
        infer(server, "bls_sync", MODEL_NAME=name, INPUT0=A, INPUT1=B)
    assert "TritonModelException: Model undefined - Error when running inference" in str(caught.value)
    assert "bls_sync/1/model.py" in str(caught.value)


@pytest.mark.parametrize("values", [[], [4], [4, 2, 0, 1]])
def test_one_response_for_each_element(server: ServerProcess, values: list[int]) -> None:
    assert stream(server, "repeat", IN=np.array(values, np.int32)) == values


@pytest.mark.parametrize("value", [0, 1, 4])
def test_as_many_responses_as_asked_for(server: ServerProcess, value: int) -> None:
    assert stream(server, "square", IN=number(value)) == [value] * value


@pytest.mark.parametrize(("model", "calls"), [("bls_decoupled_sync", 1), ("bls_decoupled_async", 2)])
@pytest.mark.parametrize("value", [0, 1, 4])
def test_a_model_sums_up_a_decoupled_one(server: ServerProcess, model: str, calls: int, value: int) -> None:
    assert infer(server, model, IN=number(value)).as_numpy("OUT").tolist() == [calls * value * value]


def test_custom_metrics_are_on_the_metrics_port(server: ServerProcess) -> None:
    infer(server, "custom_metrics", IN=np.zeros(3, np.int32))
    infer(server, "custom_metrics", IN=np.zeros(4, np.int32))
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    assert "# HELP examples_rows_total Rows seen" in lines
    assert "# TYPE examples_rows_total counter" in lines
    assert 'examples_rows_total{model="custom_metrics",version="1"} 7' in lines
    assert re.search(r'model\.py:\d+\] "rows so far: 7"', server.log)


@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [
        (1, "404", "not for you"),
        (
            2,
            "500",
            "Failed to process the request(s) for model 'errors_0', message: TritonModelException: out of order",
        ),
    ],
)
def test_errors_reach_the_client(server: ServerProcess, kind: int, status: str, text: str) -> None:
    with pytest.raises(InferenceServerException) as caught:
        infer(server, "errors", IN=number(kind))
    assert (caught.value.status(), caught.value.message().partition("\n")[0]) == (status, text)
    assert infer(server, "errors", IN=number(0)).as_numpy("OUT").tolist() == [1]


def test_an_instance_knows_its_kind(server: ServerProcess) -> None:
    assert infer(server, "kind", IN=number(0)).as_numpy("OUT").tolist() == [b"MODEL", b"0", b"kind"]


def test_preprocessing_as_the_first_step_of_an_ensemble(server: ServerProcess) -> None:
    texts = np.array([[b"1 2 3 4"], [b"0.5 0 0 -1"]], np.object_)
    result = infer(server, "pipeline", TEXT=texts)
    assert result.as_numpy("RESULT").tolist() == [[2, 4, 6, 8], [1, 0, 0, -2]]
