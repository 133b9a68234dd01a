"""What a signature tells of a configuration; nothing of TensorFlow is needed for it."""

from typing import Any

import pytest

from charonia_runtime.backends.tensorflow.completion import complete_from_signature
from charonia_runtime.backends.tensorflow.signature import Signature, SignatureTensor
from charonia_runtime.core.config import BatchInput, ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import ControlKind, Direct, DynamicBatching, SequenceBatching, SequenceControl
from tests.support.configs import a_config, a_tensor

FP32, INT32 = DataType.FP32, DataType.INT32


def a_signature(*shapes: tuple[int, ...] | None, outputs: int = 1) -> Signature:
    """Inputs A, B, … and as many outputs X, Y, … of these shapes; the last `outputs` of them."""
    tensors = [SignatureTensor("", "", FP32, shape) for shape in shapes]
    split = len(tensors) - outputs
    named = zip("ABCDEF"[:split] + "XYZ"[:outputs], tensors, strict=True)
    by_name = {name: SignatureTensor(name, f"{name}:0", FP32, tensor.shape) for name, tensor in named}
    return Signature({n: t for n, t in by_name.items() if n < "X"}, {n: t for n, t in by_name.items() if n >= "X"})


def blank(**changes: Any) -> ModelConfig:
    return a_config("m", **({"backend": "tensorflow", "max_batch_size": 0, "inputs": (), "outputs": ()} | changes))


def test_a_signature_that_batches() -> None:
    completed = complete_from_signature(blank(), a_signature((-1, 3), (-1, -1), (-1, 4)), 4)
    assert (completed.max_batch_size, completed.scheduling) == (4, DynamicBatching())
    assert completed.inputs == (a_tensor("A", FP32, 3), a_tensor("B", FP32, -1))
    assert completed.outputs == (a_tensor("X", FP32, 4),)


def test_one_that_does_not() -> None:
    completed = complete_from_signature(blank(), a_signature((2, 3), (-1, 4)), 4)
    assert (completed.max_batch_size, completed.scheduling) == (0, Direct())
    assert (completed.inputs, completed.outputs) == ((a_tensor("A", FP32, 2, 3),), (a_tensor("X", FP32, -1, 4),))


def test_one_value_a_row() -> None:
    completed = complete_from_signature(blank(), a_signature((-1,), (-1, 4)), 4)
    assert completed.inputs == (TensorSpec("A", FP32, (1,), reshape=()),)


def test_what_is_configured_stays() -> None:
    given = blank(
        max_batch_size=16,
        inputs=(TensorSpec("B", DataType.INVALID, (7,)),),
        outputs=(TensorSpec("Y", FP32, ()),),
    )
    completed = complete_from_signature(given, a_signature((-1, 3), (-1, -1), (-1, 4), (-1, 5), outputs=2), 4)
    assert completed.max_batch_size == 16
    assert completed.inputs == (a_tensor("B", FP32, 7), a_tensor("A", FP32, 3))
    assert completed.outputs == (a_tensor("Y", FP32, 5),)


def test_full_dims_mean_no_batches() -> None:
    given = blank(inputs=(a_tensor("A", FP32, -1, 3),))
    completed = complete_from_signature(given, a_signature((-1, 3), (-1, 4)), 4)
    assert (completed.max_batch_size, completed.outputs) == (0, (a_tensor("X", FP32, -1, 4),))


def test_names_that_the_model_lacks_are_left_to_the_checks() -> None:
    given = blank(inputs=(a_tensor("OTHER", INT32, 1),))
    assert complete_from_signature(given, a_signature((2, 3), (2, 4)), 4).inputs[0] == a_tensor("OTHER", INT32, 1)


def test_what_the_server_makes_is_no_client_s_input() -> None:
    control = SequenceControl("A", ControlKind.START, INT32, (0, 1))
    made = BatchInput("BATCH_ELEMENT_COUNT", ("B",), FP32, ("C",))
    given = blank(scheduling=SequenceBatching(controls=(control,)), batch_inputs=(made,))
    completed = complete_from_signature(given, a_signature((-1, 1), (-1, 1), (-1, 2), (-1, 4)), 4)
    assert completed.inputs == (a_tensor("C", FP32, 2),)
    assert isinstance(completed.scheduling, SequenceBatching)


@pytest.mark.parametrize(
    ("given", "signature", "text"),
    [
        (
            blank(max_batch_size=8),
            a_signature((2, 3), (-1, 4)),
            (
                "unable to autofill for 'm', configuration specified max-batch 8 but model signature does not support "
                "batching"
            ),
        ),
        (
            blank(inputs=(a_tensor("A", FP32, 3),), outputs=(a_tensor("X", FP32, -1, 4),)),
            a_signature((-1, 3), (-1, 4)),
            (
                "unable to autofill for 'm', model tensor configurations are contradicting each other in terms of whether "
                "batching is supported"
            ),
        ),
        (
            blank(),
            a_signature(None, (-1, 4)),
            "Unable to autofill for 'm': the rank of model tensor 'A' is 0 and dimensions are not defined",
        ),
    ],
)
def test_what_cannot_be_completed(given: ModelConfig, signature: Signature, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        complete_from_signature(given, signature, 4)
    assert caught.value.message == text
