"""Every refusal of a request, with Triton's text, and that what was accepted once is checked again where it must be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError, NotFoundError
from charonia_runtime.core.request import RequestedOutput
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.engine.execution.admission import Admission
from tests.support.configs import a_config, a_tensor
from tests.support.requests import a_request

P = "[request id: <id_unknown>] "
NOTE = (
    "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)

BATCHING = a_config("m", inputs=(a_tensor("A", DataType.FP32, 4), a_tensor("B", DataType.FP32, 4)))
ONE = a_config("m", inputs=(a_tensor("A", DataType.FP32, 4),))
VARIABLE = a_config("m", inputs=(a_tensor("A", DataType.FP32, -1),))
UNBATCHED = a_config("m", max_batch_size=0, inputs=(a_tensor("A", DataType.FP32, -1),))
OPTIONAL = a_config(
    "m", inputs=(a_tensor("A", DataType.FP32, 4), a_tensor("B", DataType.FP32, 4, optional=True),
                 a_tensor("C", DataType.FP32, 4, optional=True))
)  # fmt: skip
STRINGS = a_config("m", inputs=(a_tensor("A", DataType.BYTES, 2),))


def fp32(*shape, name="A", data=None):
    size = max(0, int(np.prod(shape))) * 4
    return Tensor(name, DataType.FP32, shape, memoryview(bytes(size) if data is None else data))


def strings(data, *shape):
    return Tensor("A", DataType.BYTES, shape, memoryview(data))


def element(text):
    return len(text).to_bytes(4, "little") + text


# (model, inputs, text): Triton's texts; odd sizes as answered by a real Triton 2.51.
REFUSALS = [
    (BATCHING, [fp32(1, 4)],
     P + "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['A'], but missing required input(s) ['B']. "
     "Please provide all required input(s)."),
    (ONE, [fp32(1, 4), fp32(1, 4, name="Q")],
     P + "expected 1 inputs but got 2 inputs for model 'm'. Got input(s) ['A','Q'], but missing required input(s) ]. "
     "Please provide all required input(s)."),
    (BATCHING, [],
     P + "expected 2 inputs but got 0 inputs for model 'm'. Got input(s) [], but missing required input(s) ['A','B']. "
     "Please provide all required input(s)."),
    (OPTIONAL, [],
     P + "expected number of inputs between 1 and 3 but got 0 inputs for model 'm'. Got input(s) [], but missing "
     "required input(s) ['A']. Please provide all required input(s)."),
    (OPTIONAL, [fp32(1, 4, name="B")],
     P + "expected number of inputs between 1 and 3 but got 1 inputs for model 'm'. Got input(s) ['B'], but missing "
     "required input(s) ['A']. Please provide all required input(s)."),
    (ONE, [fp32(1, 4, name="NOPE")], "unexpected inference input 'NOPE' for model 'm'"),
    (ONE, [fp32()], P + "input 'A' has no shape but model requires batch dimension for 'm'"),
    (BATCHING, [fp32(1, 4), fp32(2, 4, name="B")], P + "input 'A' batch size does not match other inputs for 'm'"),
    (ONE, [fp32(9, 4)], P + "inference request batch-size must be <= 8 for 'm'"),
    (ONE, [fp32(16)], P + "inference request batch-size must be <= 8 for 'm'"),
    (ONE, [Tensor("A", DataType.INT32, (1, 4), memoryview(bytes(16)))],
     P + "inference input 'A' data-type is 'INT32', but model 'm' expects 'FP32'"),
    (ONE, [Tensor("A", DataType.INVALID, (1, 4), memoryview(bytes(16)))],
     P + "inference input 'A' data-type is '<invalid>', but model 'm' expects 'FP32'"),
    (ONE, [fp32(1, -1)], P + "All input dimensions should be specified for input 'A' for model 'm', got [1,-1]"),
    (UNBATCHED, [fp32(-1)], P + "All input dimensions should be specified for input 'A' for model 'm', got [-1]"),
    (ONE, [fp32(1, 5)], P + f"unexpected shape for input 'A' for model 'm'. Expected [-1,4], got [1,5]. {NOTE}"),
    (ONE, [fp32(1, 2, 2)], P + f"unexpected shape for input 'A' for model 'm'. Expected [-1,4], got [1,2,2]. {NOTE}"),
    (UNBATCHED, [fp32(1, 4)], P + "unexpected shape for input 'A' for model 'm'. Expected [-1], got [1,4]. "),
    (ONE, [fp32(1, 4, data=bytes(12))], P + "input byte size mismatch for input 'A' for model 'm'. Expected 16, got 12"),
    (ONE, [fp32(0, 4)], P + "input byte size mismatch for input 'A' for model 'm'. Expected 16, got 0"),
    (ONE, [fp32(-1, 4)], P + "input byte size mismatch for input 'A' for model 'm'. Expected 68719476720, got 0"),
    (VARIABLE, [fp32(1, -5)], P + "input byte size mismatch for input 'A' for model 'm'. Expected -20, got 0"),
    (VARIABLE, [fp32(0, 0)], P + "inference request batch-size must be >= 1 for 'm'"),
    (STRINGS, [strings(element(b"a"), 1, 2)],
     P + "expected 2 string elements for inference input 'A' for model 'm', got 1"),
    (STRINGS, [strings(element(b"a") * 3, 1, 2)],
     P + "unexpected number of string elements 3 for inference input 'A' for model 'm', expecting 2"),
    (STRINGS, [strings(element(b"") + element(b"cut off")[:-5], 1, 2)],
     "incomplete string data for inference input 'A', expecting string of length 7 but only 2 bytes available"),
    (STRINGS, [strings(element(b"a") + b"\1\0", 1, 2)],
     P + "incomplete string length indicator for inference input 'A' for model 'm', expecting 4 bytes but only 2 bytes "
     "available. Please make sure the string length indicator is in one buffer."),
]  # fmt: skip


@pytest.mark.parametrize(("config", "inputs", "text"), REFUSALS, ids=[text[:60] for _, _, text in REFUSALS])
def test_refusals(config, inputs, text):
    with pytest.raises(InvalidArgumentError) as caught:
        Admission(config).check(a_request("m", {tensor.name: tensor for tensor in inputs}))
    assert caught.value.message == text


@pytest.mark.parametrize(("config", "inputs", "text"), REFUSALS, ids=[text[:60] for _, _, text in REFUSALS])
def test_refusals_do_not_depend_on_what_was_accepted_before(config, inputs, text):
    admission = Admission(config)
    good = {
        spec.name: Tensor(spec.name, spec.datatype, shape, memoryview(data))
        for spec in config.inputs
        for shape, data in [
            ((*([1] if config.batches else []), *([2] if spec.datatype is DataType.BYTES else [4])),
             element(b"a") * 2 if spec.datatype is DataType.BYTES else bytes(16))
        ]
    }  # fmt: skip
    admission.check(a_request("m", good))
    with pytest.raises(InvalidArgumentError) as caught:
        admission.check(a_request("m", {tensor.name: tensor for tensor in inputs}))
    assert caught.value.message == text


def test_prefix_carries_the_request_id():
    with pytest.raises(InvalidArgumentError, match=r"^\[request id: r7\] inference request batch-size"):
        Admission(ONE).check(a_request("m", {"A": fp32(9, 4)}, id="r7"))


def test_unknown_output_comes_before_everything_else():
    request = a_request("m", {}, outputs=[RequestedOutput("Z")])
    with pytest.raises(InvalidArgumentError, match=r"^unexpected inference output 'Z' for model 'm'$"):
        Admission(ONE).check(request)


@pytest.mark.parametrize(
    ("config", "inputs", "rows"),
    [
        (ONE, [fp32(3, 4)], 3),
        (BATCHING, [fp32(8, 4), fp32(8, 4, name="B")], 8),
        (VARIABLE, [fp32(1, 0)], 1),
        (UNBATCHED, [fp32(0)], 1),
        (UNBATCHED, [fp32(9)], 1),
        (OPTIONAL, [fp32(2, 4), fp32(2, 4, name="C")], 2),
        (STRINGS, [strings(element(b"") + element(b"xyz"), 1, 2)], 1),
    ],
)
def test_accepted_with_its_rows(config, inputs, rows):
    admission = Admission(config)
    for _ in range(2):
        request = a_request("m", {tensor.name: tensor for tensor in inputs})
        admission.check(request)
        assert request.batch_size == rows


def test_shape_tensors_have_no_rows():
    config = a_config(
        "m", inputs=(a_tensor("A", DataType.FP32, 4), a_tensor("S", DataType.INT32, 2, is_shape_tensor=True))
    )
    admission = Admission(config)
    for rows in (2, 2, 3):
        request = a_request("m", {"A": fp32(rows, 4), "S": np.zeros(2, np.int32)})
        admission.check(request)
        assert request.batch_size == rows


def test_shared_memory_is_resolved():
    asked = []

    def resolve(ref, *, writable):
        asked.append((ref.region, writable))
        return memoryview(bytearray(ref.byte_size))

    request = a_request(
        "m",
        {"A": Tensor("A", DataType.FP32, (1, 4), SharedMemoryRef("in", 16))},
        outputs=[RequestedOutput("OUTPUT0", shared_memory=SharedMemoryRef("out", 64))],
    )
    Admission(ONE, resolve).check(request)
    assert request.inputs["A"].buffer.nbytes == 16
    assert request.outputs[0].memory is not None
    assert sorted(asked) == [("in", False), ("out", True)]


def test_unknown_region():
    def resolve(ref, *, writable):
        raise NotFoundError(f"Unable to find shared memory region: '{ref.region}'")

    request = a_request("m", {"A": Tensor("A", DataType.FP32, (1, 4), SharedMemoryRef("r", 16))})
    with pytest.raises(NotFoundError):
        Admission(ONE, resolve).check(request)


@given(st.lists(st.tuples(st.integers(-2, 10), st.integers(-2, 6), st.integers(0, 200)), max_size=30))
def test_memory_of_accepted_shapes_changes_nothing(shapes):
    """An admission that has seen many requests decides like a new one."""
    used = Admission(VARIABLE)
    for rows, width, size in shapes:
        answers = []
        for admission in (used, Admission(VARIABLE)):
            request = a_request("m", {"A": Tensor("A", DataType.FP32, (rows, width), memoryview(bytes(size)))})
            try:
                admission.check(request)
                answers.append(request.batch_size)
            except InvalidArgumentError as error:
                answers.append(error.message)
        assert answers[0] == answers[1]
