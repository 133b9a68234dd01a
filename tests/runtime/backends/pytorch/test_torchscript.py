"""TorchScript modules: how they are called, what is refused, and that requests and modules do not share memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List  # noqa: UP035 - TorchScript knows only these

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from torch import Tensor, nn  # noqa: E402

from charonia_runtime.core.config import BatchInput, ModelConfig  # noqa: E402
from charonia_runtime.core.datatypes import DataType  # noqa: E402
from charonia_runtime.core.errors import (  # noqa: E402
    InferenceError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from charonia_runtime.core.scheduling import SequenceBatching, SequenceState  # noqa: E402
from tests.support.batches import a_batch  # noqa: E402
from tests.support.configs import a_tensor  # noqa: E402
from tests.support.torch_models import (  # noqa: E402
    CPU,
    FP32,
    ByKey,
    Difference,
    Exclaim,
    Fail,
    InPlace,
    Loaded,
    Network,
    Pass,
    error_of,
    scripted,
    torch_config,
)

BIG, SMALL = np.full((1, 2), 5, np.float32), np.full((1, 2), 3, np.float32)
ONE = {"OUTPUT__0": (FP32, 2)}


class TestNames:
    @pytest.mark.parametrize(
        ("larger", "smaller"), [("left", "right"), ("INPUT__0", "INPUT__1"), ("FIRST", "SECOND"), ("left", "OTHER__0")]
    )
    def test_of_inputs(self, larger: str, smaller: str, tmp_path: Path) -> None:
        config = torch_config({larger: (FP32, 2), smaller: (FP32, 2)}, ONE)
        batch = Loaded(scripted(tmp_path, Difference()), config).run({larger: BIG, smaller: SMALL})
        np.testing.assert_array_equal(batch.arrays_of(0)["OUTPUT__0"], BIG - SMALL)

    def test_of_inputs_in_another_order(self, tmp_path: Path) -> None:
        config = torch_config({"right": (FP32, 2), "left": (FP32, 2)}, ONE)
        batch = Loaded(scripted(tmp_path, Difference()), config).run({"right": SMALL, "left": BIG})
        np.testing.assert_array_equal(batch.arrays_of(0)["OUTPUT__0"], BIG - SMALL)

    def test_of_one_dictionary(self, tmp_path: Path) -> None:
        config = torch_config({"RIGHT": (FP32, 2), "LEFT": (FP32, 2)}, ONE)
        batch = Loaded(scripted(tmp_path, ByKey()), config).run({"RIGHT": SMALL, "LEFT": BIG})
        np.testing.assert_array_equal(batch.arrays_of(0)["OUTPUT__0"], BIG - SMALL)

    def test_of_outputs(self, tmp_path: Path) -> None:
        config = torch_config({"left": (FP32, 2), "right": (FP32, 2)}, {"SUM__1": (FP32, 2)})
        batch = Loaded(scripted(tmp_path, Difference()), config).run({"left": BIG, "right": SMALL})
        np.testing.assert_array_equal(batch.arrays_of(0)["SUM__1"], BIG + SMALL)


class TestStrings:
    def config(self, *dims: int, **changes: Any) -> ModelConfig:
        outputs = {"LOUD__0": (DataType.BYTES, *dims), "LENGTH__1": (DataType.INT64, *dims)}
        return torch_config({"WORD__0": (DataType.BYTES, *dims)}, outputs, **changes)

    def test_without_batching(self, tmp_path: Path) -> None:
        loaded = Loaded(scripted(tmp_path, Exclaim()), self.config(-1, max_batch_size=0))
        outputs = loaded.run({"WORD__0": np.array([b"hi", "é".encode(), b""], object)}).arrays_of(0)
        assert outputs["LOUD__0"].tolist() == [b"hi!", "é!".encode(), b"!"]
        assert outputs["LENGTH__1"].dtype == np.int64

    def test_in_batches(self, tmp_path: Path) -> None:
        loaded = Loaded(scripted(tmp_path, Exclaim()), self.config(1))
        words = [np.array([[b"a"]], object), np.array([[b"b"], [b"c"]], object)]
        batch = loaded.run(*[{"WORD__0": array} for array in words], outputs=["LOUD__0"])
        assert batch.arrays_of(1)["LOUD__0"].tolist() == [[b"b!"], [b"c!"]]

    def test_have_one_dimension(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgumentError, match="Triton only supports 1 dimensional List of String as input"):
            Loaded(scripted(tmp_path, Exclaim()), self.config(2))

    def test_are_utf_8(self, tmp_path: Path) -> None:
        loaded = Loaded(scripted(tmp_path, Exclaim()), self.config(-1, max_batch_size=0))
        error = error_of(loaded.run({"WORD__0": np.array([b"\xff"], object)}))
        assert isinstance(error, InvalidArgumentError)
        assert "'WORD__0'" in error.message


class TestMemory:
    def test_a_model_may_change_its_input(self, tmp_path: Path) -> None:
        loaded = Loaded(scripted(tmp_path, InPlace()), torch_config({"added": (FP32, 2)}, ONE))
        batch = loaded.run({"added": SMALL})
        np.testing.assert_array_equal(batch.requests[0].inputs["added"].as_numpy(), SMALL)

    def test_an_answer_stays_when_the_model_goes_on(self, tmp_path: Path) -> None:
        loaded = Loaded(scripted(tmp_path, InPlace()), torch_config({"added": (FP32, 2)}, ONE))
        first = loaded.run({"added": SMALL})
        second = loaded.run({"added": SMALL})
        np.testing.assert_array_equal(first.arrays_of(0)["OUTPUT__0"], 2 * SMALL)
        np.testing.assert_array_equal(second.arrays_of(0)["OUTPUT__0"], 4 * SMALL)

    def test_instances_have_modules_of_their_own(self, tmp_path: Path) -> None:
        assert self.total_of_another_instance(tmp_path) == 6

    def test_instances_share_one_where_the_parameter_says_so(self, tmp_path: Path) -> None:
        assert self.total_of_another_instance(tmp_path, ENABLE_WEIGHT_SHARING="true") == 12

    def total_of_another_instance(self, directory: Path, **parameters: str) -> float:
        config = torch_config({"added": (FP32, 2)}, ONE, parameters=parameters)
        loaded = Loaded(scripted(directory, InPlace()), config)
        loaded.run({"added": SMALL})
        loaded.instance = loaded.backend.create_instance(CPU)
        return float(loaded.run({"added": SMALL}).arrays_of(0)["OUTPUT__0"][0, 0])


class TestRefusedAtLoad:
    @pytest.mark.parametrize(
        ("module", "inputs", "text"),
        [
            (Difference, ("left",), "unable to load model 'm', configuration expects 1 inputs, model provides 2"),
            (Pass, ("a", "b", "c"), "unable to load model 'm', configuration expects 3 inputs, model provides 2"),
            (
                Pass,
                ("INPUT__0", "INPUT__2"),
                "unable to load model 'm', input 'INPUT__2' has index 2, model provides 2 inputs",
            ),
            (Pass, ("A__0", "B__0"), "unable to load model 'm', two inputs have the same index"),
            (Pass, (), "model configuration must contain at least one input, none were specified."),
        ],
    )
    def test_inputs(self, module: type[nn.Module], inputs: tuple[str, ...], text: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            Loaded(scripted(tmp_path, module()), torch_config(dict.fromkeys(inputs, (FP32, 2)), ONE))
        assert caught.value.message == text

    def test_no_outputs(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            Loaded(scripted(tmp_path, Fail()), torch_config({"first": (FP32, 2)}, {}))
        assert caught.value.message == "model configuration must contain at least one output, none were specified."

    def test_two_dictionaries(self, tmp_path: Path) -> None:
        class TwoDictionaries(nn.Module):
            def forward(self, a: Dict[str, Tensor], b: Dict[str, Tensor]):  # noqa: UP006
                return a["x"] + b["x"]

        self.refused(TwoDictionaries(), tmp_path, "Multiple inputs of kind DictType were detected.")

    def test_other_arguments(self, tmp_path: Path) -> None:
        class Listed(nn.Module):
            def forward(self, a: List[Tensor], b: Tensor):  # noqa: UP006
                return a[0] + b

        self.refused(Listed(), tmp_path, "An input of type 'List[Tensor]' was detected in the model.")

    def refused(self, module: nn.Module, directory: Path, text: str) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            Loaded(scripted(directory, module), torch_config({"a": (FP32, 2), "b": (FP32, 2)}, ONE))
        assert caught.value.message.startswith(text)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(UnavailableError) as caught:
            Loaded(tmp_path, torch_config({"a": (FP32, 2)}, ONE))
        assert caught.value.message == f"unable to find '{tmp_path}/1/model.pt' for model instance 'm'"

    def test_a_file_that_is_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "model.pt").write_bytes(b"no module")
        with pytest.raises(InternalError, match=r"^failed to load model 'm': "):
            Loaded(tmp_path, torch_config({"a": (FP32, 2)}, ONE))


class TestRefusedOutputs:
    def answer(self, directory: Path, outputs: dict[str, Any], module: nn.Module | None = None) -> InferenceError:
        config = torch_config({"left": (FP32, 2), "right": (FP32, 2)}, outputs)
        return error_of(Loaded(scripted(directory, module or Difference()), config).run({"left": BIG, "right": SMALL}))

    def test_that_the_model_does_not_have(self, tmp_path: Path) -> None:
        error = self.answer(tmp_path, {"OUT__2": (FP32, 2)})
        assert isinstance(error, InvalidArgumentError)
        assert error.message == (
            "The output OUT__2 in the model configuration refers to an output index which doesn't exist. This model has "
            "2 outputs"
        )

    def test_of_another_type(self, tmp_path: Path) -> None:
        error = self.answer(tmp_path, {"OUT__0": (DataType.INT64, 2)})
        assert isinstance(error, InvalidArgumentError)
        assert error.message == (
            "configuration expects datatype TYPE_INT64 for output 'OUT__0', model provides TYPE_FP32"
        )

    def test_scalars(self, tmp_path: Path) -> None:
        class Total(nn.Module):
            def forward(self, left, right):
                return (left + right).sum()

        assert self.answer(tmp_path, {"OUT__0": (FP32, 1)}, Total()).message == (
            "output 'OUT__0' is a scalar which is not supported."
        )

    def test_dictionaries(self, tmp_path: Path) -> None:
        class Keyed(nn.Module):
            def forward(self, left, right):
                return {"sum": left + right}

        error = self.answer(tmp_path, {"OUT__0": (FP32, 1)}, Keyed())
        assert isinstance(error, InternalError)
        assert error.message.startswith("PyTorch execute failure: output must be of type Tensor, List[str] or Tuple")

    def test_what_torch_raises_is_told(self, tmp_path: Path) -> None:
        loaded = Loaded(scripted(tmp_path, Fail()), torch_config({"first": (FP32, 2)}, ONE))
        error = error_of(loaded.run({"first": BIG}))
        assert isinstance(error, InternalError)
        assert error.message.startswith("PyTorch execute failure: ")
        assert "shape '[-1, 7]' is invalid for input of size 2" in error.message


def test_the_same_numbers_as_the_library_alone(tmp_path: Path) -> None:
    module = Network().eval()
    loaded = Loaded(scripted(tmp_path, module), torch_config({"x": (FP32, 128)}, {"OUTPUT__0": (FP32, 10)}))
    parts = [np.random.default_rng(rows).random((rows, 128), np.float32) for rows in (1, 3, 2)]
    batch = loaded.run(*[{"x": part} for part in parts])
    with torch.inference_mode():
        expected = module(torch.from_numpy(np.concatenate(parts))).numpy()
    answered = np.concatenate([batch.arrays_of(index)["OUTPUT__0"] for index in range(3)])
    np.testing.assert_array_equal(answered, expected)


@pytest.mark.parametrize("name", ["INFERENCE_MODE", "DISABLE_OPTIMIZED_EXECUTION", "ENABLE_CACHE_CLEANING"])
@pytest.mark.parametrize("value", ["true", "false"])
def test_every_mode_runs(name: str, value: str, tmp_path: Path) -> None:
    config = torch_config({"left": (FP32, 2), "right": (FP32, 2)}, ONE, parameters={name: value})
    batch = Loaded(scripted(tmp_path, Difference()), config).run({"left": BIG, "right": SMALL})
    np.testing.assert_array_equal(batch.arrays_of(0)["OUTPUT__0"], BIG - SMALL)


def test_the_mode_is_what_the_parameter_says(tmp_path: Path) -> None:
    class Mode(nn.Module):
        def forward(self, x):
            return x.sum(1, keepdim=True) * 0 + (1.0 if x.is_inference() else 0.0)

    for value, seen in (("true", 1), ("false", 0)):
        config = torch_config({"x": (FP32, 2)}, {"OUT__0": (FP32, 1)}, parameters={"INFERENCE_MODE": value})
        batch = Loaded(scripted(tmp_path, Mode()), config).run({"x": BIG})
        assert batch.arrays_of(0)["OUT__0"].item() == seen


def test_batch_inputs_and_ragged_inputs(tmp_path: Path) -> None:
    class Spread(nn.Module):
        def forward(self, flat, counts):
            return counts.reshape(-1, 1) * flat.sum()

    made = BatchInput("BATCH_ELEMENT_COUNT", ("COUNT__1",), FP32, ("FLAT__0",))
    ragged = (a_tensor("FLAT__0", FP32, -1, allow_ragged=True),)
    config = replace(torch_config({}, {"OUT__0": (FP32, 1)}), inputs=ragged, batch_inputs=(made,))
    parts = [np.ones((1, 2), np.float32), np.ones((1, 3), np.float32)]
    batch = Loaded(scripted(tmp_path, Spread()), config).run(*[{"FLAT__0": part} for part in parts])
    assert [batch.arrays_of(index)["OUT__0"].item() for index in range(2)] == [10, 15]


def test_states_are_kept_for_the_engine_and_hidden_from_clients(tmp_path: Path) -> None:
    class Counter(nn.Module):
        def forward(self, added, state):
            total = added + state
            return total * 10, total

    state = SequenceState("STATE__1", "NEW__1", FP32, (2,))
    config = torch_config({"ADDED__0": (FP32, 2)}, ONE, scheduling=SequenceBatching(states=(state,)))
    loaded = Loaded(scripted(tmp_path, Counter()), config)
    batch = a_batch(config, {"ADDED__0": BIG, "STATE__1": SMALL})
    loaded.instance.execute(batch)
    batch.flush()
    assert batch.states is not None
    np.testing.assert_array_equal(batch.states[0]["STATE__1"].as_numpy(), BIG + SMALL)
    assert list(batch.arrays_of(0)) == ["OUTPUT__0"]
