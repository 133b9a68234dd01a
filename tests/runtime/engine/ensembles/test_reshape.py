"""Inputs and outputs of ensembles with a `reshape`: shapes and texts as Triton 2.51 gave them for the same ensembles."""

import numpy as np
import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError
from tests.support.configs import a_tensor
from tests.support.ensembles import Bench, a_model, an_ensemble

STEP = ("a", {"IN": "X"}, {"OUT": "Y"})


def int32(name, *dims, **changes):
    return a_tensor(name, DataType.INT32, *dims, **changes)


def a_bench(inner, x, y, *, batch=8, inner_batch=None):
    """An ensemble of input `x` and output `y` around one model, both of whose tensors have the dims `inner`."""
    model = a_model(
        "a",
        (int32("IN", *inner),),
        (int32("OUT", *inner),),
        max_batch_size=batch if inner_batch is None else inner_batch,
    )
    return Bench(an_ensemble([STEP], (x,), (y,), max_batch_size=batch), model)


async def shapes_through(bench, sent, made=None):
    """The shape that the step sees of a request of shape `sent`, and the shape of the answer when it makes `made`."""
    elements = np.arange(np.prod(sent), dtype=np.int32).reshape(sent)
    request = bench.submit({"X": elements})
    (step,) = bench.waiting("a")
    seen = step.inputs["IN"].as_numpy()
    bench.answer("a", OUT=seen if made is None else np.zeros(made, np.int32))
    response = await request.sink.response()
    if response.error is not None:
        raise response.error
    if made is None:
        assert response.outputs[0].as_numpy().reshape(-1).tolist() == elements.reshape(-1).tolist()
    return seen.shape, response.outputs[0].shape


@pytest.mark.parametrize(
    ("batch", "sent", "seen", "answered"),
    [(8, (3, 4), (3, 2, 2), (3, 4)), (8, (1, 4), (1, 2, 2), (1, 4)), (0, (4,), (2, 2), (4,))],
)
async def test_fixed_dims(batch, sent, seen, answered):
    bench = a_bench((2, 2), int32("X", 4, reshape=(2, 2)), int32("Y", 4, reshape=(2, 2)), batch=batch)

    assert await shapes_through(bench, sent) == (seen, answered)


async def test_only_the_input_or_only_the_output():
    reshaped_input = a_bench((2, 2), int32("X", 4, reshape=(2, 2)), int32("Y", 2, 2))
    reshaped_output = a_bench((2, 2), int32("X", 2, 2), int32("Y", 4, reshape=(2, 2)))

    assert await shapes_through(reshaped_input, (3, 4)) == ((3, 2, 2), (3, 2, 2))
    assert await shapes_through(reshaped_output, (3, 2, 2)) == ((3, 2, 2), (3, 4))


async def test_variable_dims_are_carried_over():
    bench = a_bench((-1, 1, 2), int32("X", -1, 2, reshape=(-1, 1, 2)), int32("Y", -1, 2, reshape=(-1, 1, 2)))

    assert await shapes_through(bench, (3, 5, 2)) == ((3, 5, 1, 2), (3, 5, 2))


async def test_an_ensemble_that_batches_around_a_model_that_does_not_and_the_other_way():
    x, y = int32("X", 4, reshape=(2, 2)), int32("Y", 4, reshape=(2, 2))

    assert await shapes_through(a_bench((2, 2), x, y, inner_batch=0), (1, 4)) == ((2, 2), (1, 4))
    assert await shapes_through(a_bench((2, 2), x, y, batch=0, inner_batch=8), (4,)) == ((1, 2, 2), (4,))


@pytest.mark.parametrize(
    ("dims", "reshape", "made"),
    [((4,), (2, 2), (1, 3, 3)), ((-1,), (-1, 1), (1, 3, 2)), ((-1,), (-1, 1), (3, 1, 3))],
)
async def test_a_model_that_makes_another_size(dims, reshape, made):
    bench = a_bench((-1, -1), int32("X", -1, -1), int32("Y", *dims, reshape=reshape))

    with pytest.raises(InternalError) as caught:
        await shapes_through(bench, (made[0], 2, 2), made)

    assert caught.value.message == "output tensor shape does not match size of output for 'Y'"
    assert bench.model.in_flight == 0


async def test_a_model_that_makes_other_dims_of_the_same_size():
    bench = a_bench((-1, -1), int32("X", -1, -1), int32("Y", 4, reshape=(2, 2)))

    assert await shapes_through(bench, (3, 4, 1)) == ((3, 4, 1), (3, 4))
