"""The classification extension, label files and outputs in shared memory."""

import numpy as np
import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.request import InferenceResponse, RequestedOutput
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor, unpack_bytes
from charonia_runtime.engine.execution.answers import AnswerFinisher, classify, read_labels, write
from tests.support.configs import a_config, a_tensor
from tests.support.requests import a_request

LABELS = ["cat", "dog", "fish"]


def classes(array, count, labels=(), *, batches=True, datatype=None):
    found = classify(Tensor.from_numpy("OUT", array, datatype), count, labels, batches=batches)
    assert found.datatype is DataType.BYTES
    return found.shape, [entry.decode() for entry in unpack_bytes(found.buffer, "OUT")]


# The first three are answers of a real Triton 2.51.
@pytest.mark.parametrize(
    ("array", "count", "labels", "shape", "entries"),
    [
        (np.array([[0.1, 0.9, 0.5, -1]], np.float32), 2, LABELS, (1, 2), ["0.900000:1:dog", "0.500000:2:fish"]),
        (np.array([[0.1, 0.9, 0.5, -1]], np.float32), 9, LABELS, (1, 4),
         ["0.900000:1:dog", "0.500000:2:fish", "0.100000:0:cat", "-1.000000:3"]),
        (np.array([[1, 3, 2, 3], [4, 1, 2, 4]], np.float32), 1, LABELS, (2, 1), ["3.000000:1:dog", "4.000000:0:cat"]),
        (np.array([[11, 22, 33, 44]], np.int32), 3, [], (1, 3), ["44:3", "33:2", "22:1"]),
        (np.array([[0, 2**64 - 1]], np.uint64), 2, [], (1, 2), [f"{2**64 - 1}:1", "0:0"]),
        (np.array([[-(2**63), 5]], np.int64), 2, [], (1, 2), ["5:1", f"{-(2**63)}:0"]),
        (np.array([[np.nan, np.inf, -np.inf]], np.float64), 3, [], (1, 3), ["inf:1", "-inf:2", "nan:0"]),
        (np.array([[[1, 2], [3, 0]]], np.int8), 1, ["", "", "c"], (1, 1), ["3:2:c"]),
        (np.array([[1, 2]], np.int8), 1, ["", ""], (1, 1), ["2:1"]),
        (np.zeros((2, 0), np.float32), 3, [], (2, 0), []),
    ],
)  # fmt: skip
def test_classes(array, count, labels, shape, entries):
    assert classes(array, count, labels) == (shape, entries)


def test_without_batching_there_is_one_row():
    assert classes(np.array([[1, 2], [4, 3]], np.int32), 2, batches=False) == ((2,), ["4:2", "3:3"])


@pytest.mark.parametrize(
    ("array", "datatype", "name"),
    [
        (np.array([[True]]), None, "BOOL"),
        (np.array([[1]], np.float16), None, "FP16"),
        (np.array([[1]], np.uint16), DataType.BF16, "BF16"),
        (np.array([[b"a"]], object), None, "BYTES"),
    ],
)
def test_types_that_cannot_be_classified(array, datatype, name):
    with pytest.raises(
        InvalidArgumentError, match=f"^class result not available for output due to unsupported type '{name}'$"
    ):
        classes(array, 1, datatype=datatype)


def test_too_large_to_classify():
    with pytest.raises(InvalidArgumentError, match=r"^classification output tensor too large$"):
        classes(np.zeros((1, 1_000_001), np.int8), 1)


def labelled(filename):
    return a_config("m", outputs=(a_tensor("OUT", DataType.FP32, 4, label_filename=filename), a_tensor("PLAIN")))


def test_labels_are_cut_at_newlines_only(tmp_path):
    (tmp_path / "labels.txt").write_bytes(b"cat\r\n\ndog\xff\nlast")
    assert read_labels(tmp_path, labelled("labels.txt")) == {"OUT": ["cat\r", "", "dog\udcff", "last"]}
    (tmp_path / "labels.txt").write_bytes(b"a\nb\n")
    assert read_labels(tmp_path, labelled("labels.txt")) == {"OUT": ["a", "b"]}


def test_a_label_goes_out_as_the_bytes_it_has(tmp_path):
    (tmp_path / "labels.txt").write_bytes(b"dog\xff")
    labels = read_labels(tmp_path, labelled("labels.txt"))["OUT"]
    tensor = classify(Tensor.from_numpy("OUT", np.array([[1]], np.int32)), 1, labels, batches=True)
    assert unpack_bytes(tensor.buffer, "OUT") == [b"1:0:dog\xff"]


def test_missing_label_file(tmp_path):
    with pytest.raises(InternalError) as caught:
        read_labels(tmp_path, labelled("labels.txt"))
    assert caught.value.message == (
        f"failed to open text file for read {tmp_path}/labels.txt: No such file or directory"
    )


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret", ".."])
def test_label_files_lie_in_the_models_folder(tmp_path, path):
    with pytest.raises(InvalidArgumentError, match="must be a path inside the model's folder"):
        read_labels(tmp_path, labelled(path))


def finish(tensors, outputs):
    request = a_request("m", {}, outputs=outputs)
    answers = [(request, InferenceResponse("m", 1, outputs=tensors))]
    AnswerFinisher(labelled(""), {"OUT": LABELS}).finish(answers)
    return answers[0][1]


def test_output_in_shared_memory():
    memory, ref = bytearray(20), SharedMemoryRef("r", 20)
    output = RequestedOutput("OUT", shared_memory=ref, memory=memoryview(memory))
    response = finish([Tensor.from_numpy("OUT", np.arange(4, dtype=np.int32).reshape(1, 4))], [output])
    assert memory == np.arange(4, dtype=np.int32).tobytes() + bytes(4)
    (tensor,) = response.outputs
    assert (tensor.shape, tensor.data) == ((1, 4), ref)


def test_output_too_large_for_its_shared_memory():
    output = RequestedOutput("OUT", shared_memory=SharedMemoryRef("r", 8), memory=memoryview(bytearray(8)))
    response = finish([Tensor.from_numpy("OUT", np.zeros((1, 4), np.int32))], [output])
    assert isinstance(response.error, InternalError)
    assert response.error.message == (
        "shared memory size specified with the request for output 'OUT' (8 bytes) should be at least 16 bytes to hold "
        "the results"
    )
    assert not response.outputs
    assert not response.failed


def test_only_what_asks_for_it_is_changed():
    plain = Tensor.from_numpy("PLAIN", np.zeros((1, 4), np.int32))
    classified = Tensor.from_numpy("OUT", np.array([[1, 2, 3]], np.float32))
    response = finish([plain, classified], [RequestedOutput("PLAIN"), RequestedOutput("OUT", classes=1)])
    assert response.outputs[0] is plain
    assert unpack_bytes(response.outputs[1].buffer, "OUT") == [b"3.000000:2:fish"]


def test_empty_output_needs_no_memory():
    tensor = write(
        Tensor.from_numpy("OUT", np.zeros((1, 0), np.int32)), memoryview(bytearray()), SharedMemoryRef("r", 0)
    )
    assert tensor.shape == (1, 0)
