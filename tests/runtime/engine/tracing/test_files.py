import json

import numpy as np
import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.engine.tracing.files import FileTraces
from tests.support.traces import TraceMaker, a_sampler


def ids(path):
    return sorted({element["id"] for element in json.loads(path.read_text())})


@pytest.fixture
def file(tmp_path):
    return tmp_path / "trace.json"


def write(file, traced, /, **values):
    traces = FileTraces(str(file))
    maker = TraceMaker(traces, a_sampler(**values))
    for _ in range(traced):
        maker.finished()
    return traces


def test_one_timestamp_in_each_element_in_the_order_of_events(file):
    traces = FileTraces(str(file))
    trace = TraceMaker(traces).finished(request_id="rid")
    traces.close()

    elements = json.loads(file.read_text())
    shown = [one["timestamps"][0]["name"] if "timestamps" in one else one for one in elements]
    assert shown == [
        "HTTP_RECV_START", "HTTP_RECV_END",
        {"id": 1, "model_name": "simple", "model_version": 3, "request_id": "rid"},
        "REQUEST_START", "QUEUE_START",
        "INFER_RESPONSE_COMPLETE", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
        "REQUEST_END", "HTTP_SEND_START", "HTTP_SEND_END",
    ]  # fmt: skip
    assert elements[0] == {"id": 1, "timestamps": [{"name": "HTTP_RECV_START", "ns": 1000}]}
    assert elements[3]["timestamps"][0]["ns"] == trace.start_ns == 1200


def test_steps_name_their_ensemble_and_come_first(file):
    traces = FileTraces(str(file))
    TraceMaker(traces).finished(steps=1)
    traces.close()

    models = [element for element in json.loads(file.read_text()) if "model_name" in element]
    assert models == [
        {"id": 2, "model_name": "step", "model_version": 3, "parent_id": 1},
        {"id": 1, "model_name": "simple", "model_version": 3},
    ]


def test_tensors_as_text(file):
    traces = FileTraces(str(file))
    inputs = {
        "F": np.array([[0.1, 1e10], [1 / 3, np.inf]], np.float32),
        "B": np.array([True, False]),
        "S": np.array([b"a", b"\xff,"], object),
        "I": np.array([-(2**63)], np.int64),
        "M": Tensor("M", DataType.INT8, (4,), SharedMemoryRef("region", 4)),
    }
    TraceMaker(traces, a_sampler(levels=("TENSORS",))).finished(
        inputs=inputs, outputs=[Tensor.from_numpy("O", inputs["B"])]
    )
    traces.close()

    elements = json.loads(file.read_text())
    assert elements[1] == {
        "id": 1,
        "activity": "TENSOR_QUEUE_INPUT",
        "tensor": {"name": "F", "data": "0.1,1e+10,0.333333,inf", "shape": "2,2", "dtype": "FP32"},
    }
    assert [element["tensor"]["data"] for element in elements[2:]] == ["1,0", '"a","\ufffd,"', str(-(2**63)), "", "1,0"]
    assert elements[-1]["activity"] == "TENSOR_BACKEND_OUTPUT"


def test_everything_in_one_array_when_nothing_says_otherwise(file, tmp_path):
    write(file, 2500).close()
    assert ids(file) == list(range(1, 2501))
    assert list(tmp_path.iterdir()) == [file]


def test_files_of_so_many_traces(file, tmp_path):
    write(file, 5, log_frequency=2).close()
    assert [ids(tmp_path / f"trace.json.{index}") for index in range(3)] == [[1, 2], [3, 4], [5]]
    assert not file.exists()


def test_a_count_that_is_used_up_is_written_at_once(file, tmp_path):
    traces = write(file, 3, count=3)
    traces._thread.submit(lambda: None).result()
    assert ids(tmp_path / "trace.json.0") == [1, 2, 3]
    traces.close()
    assert not file.exists()


def test_changed_settings_end_a_collection(file):
    traces = write(file, 2, count=5)
    maker = TraceMaker(traces)
    traces.drop(next(iter(traces._collections)))
    maker.finished()
    traces.close()

    models = [element for element in json.loads(file.read_text()) if "model_name" in element]
    assert [model["id"] for model in models] == [1, 2, 1]


def test_a_file_that_cannot_be_written_is_logged(tmp_path, caplog):
    write(tmp_path / "none" / "trace.json", 1).close()
    assert "failed writing trace file" in caplog.text


def test_nothing_traced_writes_nothing(file):
    FileTraces(str(file)).close()
    assert not file.exists()
