import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.engine.ensembles.composition import check_composition, is_decoupled
from tests.support.configs import a_tensor
from tests.support.ensembles import a_model, an_ensemble

INT32, FP32 = DataType.INT32, DataType.FP32
SIMPLE = ("a", {"IN": "X"}, {"OUT": "Y"})


def check(config, *models):
    check_composition(config, config.scheduling, {model.name: model for model in models})


def refusal(config, *models):
    with pytest.raises(InvalidArgumentError) as caught:
        check(config, *models)
    return caught.value.message


@pytest.mark.parametrize(
    ("step", "model", "text"),
    [
        (
            SIMPLE, a_model("a", max_batch_size=4),
            ("ensemble pipeline allows maximum batch size 8, but it contains model a which only allows maximum batch "
            "size to be 4"),
        ),
        (
            ("a", {"IN": "X", "IN2": "X"}, {"OUT": "Y"}), a_model("a"),
            "in ensemble pipeline, ensemble tensor X is mapping to non-existing input IN2 in model a",
        ),
        (
            ("a", {"IN": "X"}, {"OUT": "Y", "OUT2": "Z"}), a_model("a"),
            "in ensemble pipeline, ensemble tensor Z is mapped from non-existing output OUT2 in model a",
        ),
        (
            SIMPLE, a_model("a", ("IN", "B")),
            "in ensemble pipeline, input B in model a is not mapped to any ensemble tensors",
        ),
        (
            SIMPLE, a_model("a", inputs=(a_tensor("IN", FP32, 4),)),
            ("in ensemble pipeline, ensemble tensor X: inconsistent data type: TYPE_INT32 is inferred from model "
            "pipeline while TYPE_FP32 is inferred from model a"),
        ),
        (
            SIMPLE, a_model("a", inputs=(a_tensor("IN", INT32, 2),)),
            ("in ensemble pipeline, ensemble tensor X: inconsistent shape: [-1,4] is inferred from model pipeline while "
            "[-1,2] is inferred from model a"),
        ),
        (
            SIMPLE, a_model("a", outputs=(a_tensor("OUT", INT32, 4, 4),)),
            ("in ensemble pipeline, ensemble tensor Y: inconsistent shape: [-1,4] is inferred from model pipeline while "
            "[-1,4,4] is inferred from model a"),
        ),
    ],
)  # fmt: skip
def test_steps_that_do_not_fit(step, model, text):
    assert refusal(an_ensemble([step]), model) == text


@pytest.mark.parametrize(
    "model",
    [
        a_model("a", max_batch_size=0),
        a_model("a", max_batch_size=16),
        a_model(
            "a", max_batch_size=0, inputs=(a_tensor("IN", INT32, -1, 4),), outputs=(a_tensor("OUT", INT32, -1, 4),)
        ),
        a_model("a", inputs=(a_tensor("IN", INT32, -1),)),
        a_model("a", inputs=(a_tensor("IN", INT32, 4), a_tensor("B", INT32, 4, optional=True))),
    ],
)
def test_steps_that_fit(model):
    check(an_ensemble([SIMPLE]), model)


def test_models_of_one_tensor_are_compared_with_each_other():
    config = an_ensemble([("a", {"IN": "X"}, {"OUT": "t"}), ("b", {"IN": "t"}, {"OUT": "Y"})])

    assert refusal(config, a_model("a"), a_model("b", inputs=(a_tensor("IN", FP32, 4),))) == (
        "in ensemble pipeline, ensemble tensor t: inconsistent data type: TYPE_INT32 is inferred from model a while "
        "TYPE_FP32 is inferred from model b"
    )


ORIGINS = "in ensemble pipeline, step of model 'pipeline' receives inputs originated from different decoupled models"
REPEAT = a_model("repeat", decoupled=True)
PLAIN = a_model("plain")
ADD = a_model("add", ("A", "B"))


@pytest.mark.parametrize(
    "config",
    [
        an_ensemble([("repeat", {"IN": "X"}, {"OUT": "s"}), ("add", {"A": "s", "B": "X"}, {"OUT": "Y"})]),
        an_ensemble(
            [
                ("repeat", {"IN": "X"}, {"OUT": "s"}),
                ("repeat", {"IN": "X"}, {"OUT": "t"}),
                ("add", {"A": "s", "B": "t"}, {"OUT": "Y"}),
            ]
        ),
        an_ensemble([("repeat", {"IN": "X"}, {"OUT": "Y"}), ("plain", {"IN": "X"}, {"OUT": "Z"})], outputs=("Y", "Z")),
    ],
)
def test_tensors_of_different_origins_do_not_meet(config):
    assert refusal(config, REPEAT, PLAIN, ADD) == ORIGINS


def test_a_decoupled_step_makes_the_ensemble_decoupled():
    config = an_ensemble(
        [
            ("plain", {"IN": "s"}, {"OUT": "t"}),
            ("plain", {"IN": "s"}, {"OUT": "u"}),
            ("add", {"A": "t", "B": "u"}, {"OUT": "Y"}),
            ("repeat", {"IN": "X"}, {"OUT": "s"}),
        ]
    )
    check(config, REPEAT, PLAIN, ADD)

    assert is_decoupled(config.scheduling, {model.name: model for model in (REPEAT, PLAIN, ADD)})
    assert not is_decoupled(an_ensemble([SIMPLE]).scheduling, {"a": PLAIN})


def test_the_steps_of_an_ensemble_see_its_tensors_after_their_reshape():
    squares = a_model("a", (a_tensor("IN", INT32, 2, 2),), (a_tensor("OUT", INT32, 2, 2),))
    rows = a_model("a")
    tensors = {
        "inputs": (a_tensor("X", INT32, 4, reshape=(2, 2)),),
        "outputs": (a_tensor("Y", INT32, 4, reshape=(2, 2)),),
    }

    check(an_ensemble([SIMPLE], **tensors), squares)
    assert refusal(an_ensemble([SIMPLE], **tensors), rows) == (
        "in ensemble pipeline, ensemble tensor X: inconsistent shape: [-1,2,2] is inferred from model pipeline while "
        "[-1,4] is inferred from model a"
    )


def test_an_ensemble_sees_the_tensors_of_a_step_before_their_reshape():
    reshaping = a_model("a", (a_tensor("IN", INT32, 4, reshape=(2, 2)),), (a_tensor("OUT", INT32, 4, reshape=(2, 2)),))
    check(an_ensemble([SIMPLE]), reshaping)
