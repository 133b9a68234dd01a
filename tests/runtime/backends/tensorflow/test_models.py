"""TensorFlow models: completed, checked, opened, run."""

import json
import logging
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="the package tensorflow is not installed")

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import (
    Accelerator,
    BatchInput,
    BatchOutput,
    InstanceGroup,
    InstanceKind,
    ModelConfig,
    Optimization,
    Placement,
)
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.scheduling import (
    ControlKind,
    DynamicBatching,
    SequenceBatching,
    SequenceControl,
    SequenceState,
)
from charonia_runtime.installation import install_command
from tests.support.configs import a_tensor
from tests.support.tensorflow_models import (
    Loaded,
    a_signature,
    a_spec,
    save,
    save_difference,
    save_graph,
    tensorflow,
    tensorflow_config,
)

FP32, INT32 = DataType.FP32, DataType.INT32
PAIR = {"LEFT": np.full((2, 3), 5, np.float32), "RIGHT": np.full((2, 3), 3, np.float32)}


def pair(*dims: int, datatype: DataType = FP32, **changes: Any) -> ModelConfig:
    return tensorflow_config(**({
        "max_batch_size": 8,
        "inputs": (a_tensor("LEFT", datatype, *dims), a_tensor("RIGHT", datatype, *dims)),
        "outputs": (a_tensor("DIFFERENCE", datatype, *dims),),
    } | changes))  # fmt: skip


@pytest.fixture(scope="module")
def difference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LEFT - RIGHT, rows of any number of columns."""
    return save_difference(tmp_path_factory.mktemp("difference"), [None, None])


def test_a_model_without_a_configuration(difference: Path) -> None:
    loaded = Loaded(difference, tensorflow_config(), **{"default-max-batch-size": "16"}).load()
    assert (loaded.config.max_batch_size, loaded.config.scheduling) == (16, DynamicBatching())
    assert loaded.config.inputs == (a_tensor("LEFT", FP32, -1), a_tensor("RIGHT", FP32, -1))
    answer = loaded.run(PAIR, {name: array[:1] for name, array in PAIR.items()})
    assert answer.arrays_of(0)["DIFFERENCE"].tolist() == [[2, 2, 2], [2, 2, 2]]
    assert answer.arrays_of(1)["DIFFERENCE"].tolist() == [[2, 2, 2]]


def test_what_the_framework_refuses_of_a_request(difference: Path) -> None:
    loaded = Loaded(difference, pair(-1)).load()
    failed = loaded.run({"LEFT": PAIR["LEFT"], "RIGHT": PAIR["RIGHT"][:, :2]})
    (response,) = failed.responses_to(0)
    assert isinstance(response.error, InternalError)
    assert "Incompatible shapes: [2,3] vs. [2,2]" in response.error.message
    assert loaded.run(PAIR).arrays_of(0)["DIFFERENCE"].shape == (2, 3)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            pair(-1, platform="onnx"),
            InvalidArgumentError,
            "platform onnx not supported for TensorFlow model 'm'",
        ),
        (
            pair(-1, inputs=(a_tensor("LEFT", FP32, -1),)),
            InvalidArgumentError,
            "unable to load model 'm', configuration expects 1 inputs, model provides 2",
        ),
        (
            pair(-1, inputs=(a_tensor("LEFT", FP32, -1), a_tensor("OTHER", FP32, -1))),
            InvalidArgumentError,
            "unexpected inference input 'OTHER', allowed inputs are: LEFT, RIGHT",
        ),
        (
            pair(-1, outputs=(a_tensor("SUM", FP32, -1),)),
            InvalidArgumentError,
            "unexpected inference output 'SUM', allowed outputs are: DIFFERENCE",
        ),
        (
            pair(-1, outputs=(a_tensor("DIFFERENCE", INT32, -1),)),
            InvalidArgumentError,
            ("unable to load model 'm', configuration expects datatype TYPE_INT32 for output 'DIFFERENCE', model "
            "provides TYPE_FP32"),
        ),
        (
            pair(-1, datatype=DataType.BF16),
            InternalError,
            "unsupported datatype 'TYPE_BF16' for tensor 'LEFT' for model 'm'",
        ),
        (
            pair(-1, -1),
            InvalidArgumentError,
            ("model 'm', tensor 'LEFT': the model expects 2 dimensions (shape [-1,-1]) but the model configuration "
            "specifies 3 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit "
            "tensor shape, making complete shape [-1,-1,-1])"),
        ),
        (
            pair(3),
            InvalidArgumentError,
            ("model 'm', tensor 'DIFFERENCE': the model expects 2 dimensions (shape [-1,-1]) but the model configuration "
            "specifies 2 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit "
            "tensor shape, making complete shape [-1,3])"),
        ),
        (
            pair(-1, parameters={"TF_GRAPH_TAG": "train"}),
            InvalidArgumentError,
            "unable to load model 'm', expected 'train' tag",
        ),
        (
            pair(-1, parameters={"TF_SIGNATURE_DEF": "rank"}),
            InvalidArgumentError,
            "unable to load model 'm', expected 'rank' signature",
        ),
        (
            pair(-1, optimization=Optimization(cpu_accelerators=(Accelerator("openvino"),))),
            InvalidArgumentError,
            "CPU Execution Accelerator is not supported in TensorFlow backend",
        ),
        (
            pair(-1, scheduling=SequenceBatching(states=(SequenceState("LEFT", "DIFFERENCE", FP32, (1,)),))),
            InvalidArgumentError,
            "model 'm': the tensorflow backend keeps no sequence_batching.state",
        ),
        (
            pair(-1, scheduling=SequenceBatching(controls=(SequenceControl("START", ControlKind.START, FP32, (0, 1)),)),
                 inputs=(a_tensor("LEFT", FP32, -1),)),
            InternalError,
            "configuration specified sequence control 'START', but model does not provide that input",
        ),
        (
            pair(-1, scheduling=SequenceBatching(controls=(SequenceControl("RIGHT", ControlKind.START, FP32, (0, 1)),)),
                 inputs=(a_tensor("LEFT", FP32, -1),)),
            InvalidArgumentError,
            "unable to load model 'm', sequence control 'RIGHT' in model has dims [-1] but dims [1] is expected",
        ),
    ],
)  # fmt: skip
def test_configurations_that_do_not_fit(
    given: ModelConfig, error: type[Exception], text: str, difference: Path
) -> None:
    backend = load_backend("tensorflow")(ModelFiles("m", 1, difference, difference / "1"))
    with pytest.raises(error) as caught:
        backend.load(given)
    assert str(caught.value) == text


def test_models_that_cannot_batch(tmp_path: Path) -> None:
    save_difference(tmp_path, [2, 3])
    loaded = Loaded(tmp_path, tensorflow_config())
    assert (loaded.config.max_batch_size, loaded.config.inputs[0]) == (0, a_tensor("LEFT", FP32, 2, 3))
    assert loaded.load().run(PAIR).arrays_of(0)["DIFFERENCE"].tolist() == [[2, 2, 2], [2, 2, 2]]
    with pytest.raises(InvalidArgumentError, match=r"the first dimension must be -1; but shape .* is \[2,3\]$"):
        loaded.backend.load(pair(3))


def test_variables_tables_and_strings(tmp_path: Path) -> None:
    """What a model brings besides its graph: variables, a table with its initializer, more than one signature."""

    class Words(tensorflow.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.offset = tensorflow.Variable(10, dtype=tensorflow.int64)
            pairs = tensorflow.lookup.KeyValueTensorInitializer(["one", "two"], tensorflow.constant([1, 2], "int64"))
            self.table = tensorflow.lookup.StaticHashTable(pairs, -1)

        def look_up(self, words: Any) -> dict[str, Any]:
            return {"NUMBER": self.table.lookup(words) + self.offset, "WORD": tensorflow.strings.upper(words)}

    module = Words()
    spec = a_spec("WORD_IN", [None, 1], DataType.BYTES)
    save(
        tmp_path,
        module,
        number=a_signature(module.look_up, spec),
        other=a_signature(lambda words: {"LENGTH": tensorflow.strings.length(words)}, spec),
    )
    words = np.array([[b"two"], [b"\xff\0three"]], object)
    loaded = Loaded(tmp_path, tensorflow_config()).load()  # neither is the default one: the first is taken
    answer = loaded.run({"WORD_IN": words}).arrays_of(0)
    assert (answer["NUMBER"].tolist(), answer["WORD"].tolist()) == ([[12], [9]], [[b"TWO"], [b"\xff\0THREE"]])
    other = Loaded(tmp_path, tensorflow_config(parameters={"TF_SIGNATURE_DEF": "other"})).load()
    assert other.run({"WORD_IN": words}).arrays_of(0)["LENGTH"].tolist() == [[3], [7]]


def test_an_output_that_is_an_input_and_one_with_two_names(tmp_path: Path) -> None:
    save(
        tmp_path,
        serving_default=a_signature(
            lambda first, second: {"SAME": first, "TWICE": first + second, "AGAIN": first + second},
            a_spec("A", [None, 2]), a_spec("B", [None, 2]),
        ),
    )  # fmt: skip
    loaded = Loaded(tmp_path, tensorflow_config()).load()
    rows = np.array([[1, 2]], np.float32)
    answer = loaded.run({"A": rows, "B": rows}).arrays_of(0)
    assert {name: array.tolist() for name, array in answer.items()} == {
        "SAME": [[1, 2]], "TWICE": [[2, 4]], "AGAIN": [[2, 4]],
    }  # fmt: skip


class TestGraphs:
    def test_a_frozen_graph(self, tmp_path: Path) -> None:
        def build(v1: Any) -> None:
            left = v1.placeholder("float32", [None, 3], "LEFT")
            v1.identity(left * 2, "DOUBLE")
            v1.placeholder("float32", [None, 3], "UNUSED")

        save_graph(tmp_path, build)
        config = tensorflow_config(
            platform="tensorflow_graphdef", max_batch_size=8,
            inputs=(a_tensor("LEFT", FP32, 3),), outputs=(a_tensor("DOUBLE", FP32, 3),),
        )  # fmt: skip
        loaded = Loaded(tmp_path, config).load()
        assert loaded.config == config
        assert loaded.run({"LEFT": PAIR["LEFT"]}).arrays_of(0)["DOUBLE"].tolist() == [[10, 10, 10]] * 2

        with pytest.raises(InvalidArgumentError, match=r"unexpected inference input 'DOUBLE', .* LEFT, UNUSED$"):
            loaded.backend.load(replace(config, inputs=(a_tensor("DOUBLE", FP32, 3),)))
        many = tuple(a_tensor(name, FP32, 3) for name in ("LEFT", "UNUSED", "OTHER"))
        with pytest.raises(InvalidArgumentError, match=r"configuration expects 3 inputs, model provides at most 2$"):
            loaded.backend.load(replace(config, inputs=many))

    def test_an_output_of_another_type(self, tmp_path: Path) -> None:
        save_graph(tmp_path, lambda v1: v1.cast(v1.placeholder("float32", [None, 3], "IN"), "int64", "OUT"))
        config = tensorflow_config(
            platform="tensorflow_graphdef", max_batch_size=8,
            inputs=(a_tensor("IN", FP32, 3),), outputs=(a_tensor("OUT", FP32, 3),),
        )  # fmt: skip
        (response,) = Loaded(tmp_path, config).load().run({"IN": PAIR["LEFT"]}).responses_to(0)
        assert response.error is not None
        assert response.error.message == (
            "unexpected datatype TYPE_INT64 for inference output 'OUT', expecting TYPE_FP32"
        )

    def test_an_empty_graph(self, tmp_path: Path) -> None:
        save_graph(tmp_path, lambda _: None)
        with pytest.raises(InvalidArgumentError, match=r"^model m has an empty network$"):
            Loaded(tmp_path, tensorflow_config(platform="tensorflow_graphdef")).load()

    def test_operations_that_are_run_first(self, tmp_path: Path) -> None:
        def build(v1: Any) -> None:
            counter = v1.get_variable("counter", initializer=7.0, use_resource=True)
            v1.identity(counter.read_value() + v1.placeholder("float32", [None], "IN"), "OUT")

        save_graph(tmp_path, build)
        (tmp_path / "ops.json").write_text(json.dumps({"init_ops": ["counter/Assign"]}))
        config = tensorflow_config(
            platform="tensorflow_graphdef", inputs=(a_tensor("IN", FP32, -1),), outputs=(a_tensor("OUT", FP32, -1),),
            parameters={"TF_INIT_OPS_FILE": "ops.json"},
        )  # fmt: skip
        loaded = Loaded(tmp_path, config).load()
        assert loaded.run({"IN": np.ones(2, np.float32)}).arrays_of(0)["OUT"].tolist() == [8, 8]
        (tmp_path / "ops.json").write_text(json.dumps({"init_ops": ["nothing"]}))
        with pytest.raises(InternalError, match=r"^failed to load model 'm': .*nothing"):
            Loaded(tmp_path, config).load()


def test_inputs_of_different_lengths(tmp_path: Path) -> None:
    save(
        tmp_path,
        serving_default=a_signature(
            lambda values, ends: {"DOUBLED": values * 2, "ENDS": ends}, a_spec("VALUES", [None]), a_spec("ENDS", [None])
        ),
    )
    config = tensorflow_config(
        max_batch_size=4,
        inputs=(a_tensor("VALUES", FP32, -1, allow_ragged=True),),
        outputs=(a_tensor("DOUBLED", FP32, -1), a_tensor("ENDS", FP32, 1, reshape=())),
        batch_inputs=(BatchInput("BATCH_ACCUMULATED_ELEMENT_COUNT", ("ENDS",), FP32, ("VALUES",)),),
        batch_outputs=(BatchOutput("BATCH_SCATTER_WITH_INPUT_SHAPE", ("DOUBLED",), ("VALUES",)),),
    )
    rows = [{"VALUES": np.arange(length, dtype=np.float32).reshape(1, -1)} for length in (2, 3)]
    batch = Loaded(tmp_path, config).load().run(*rows)
    assert [batch.arrays_of(index)["DOUBLED"].tolist() for index in range(2)] == [[[0, 2]], [[0, 2, 4]]]
    assert [batch.arrays_of(index)["ENDS"].tolist() for index in range(2)] == [[[2]], [[5]]]


class TestSessions:
    @pytest.fixture
    def counting(self, tmp_path: Path) -> Path:
        """Counts its calls in a variable."""

        class Counter(tensorflow.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.calls = tensorflow.Variable(0.0)

            def count(self, rows: Any) -> dict[str, Any]:
                return {"CALLS": rows * 0 + self.calls.assign_add(1.0)}

        module = Counter()
        return save(tmp_path, module, serving_default=a_signature(module.count, a_spec("IN", [None, 1])))

    def calls(self, directory: Path, instances: int, **parameters: str) -> list[float]:
        loaded = Loaded(directory, tensorflow_config(parameters=parameters)).load()
        answers: list[float] = []
        for index in range(instances):
            if index:
                loaded.instance = loaded.backend.create_instance(Placement(f"m_{index}", InstanceKind.CPU))
            answers.append(loaded.run({"IN": np.ones((1, 1), np.float32)}).arrays_of(0)["CALLS"].item())
        loaded.instance.close()
        loaded.backend.close()
        return answers

    def test_each_instance_has_its_own(self, counting: Path) -> None:
        assert self.calls(counting, 3) == [1, 1, 1]

    def test_so_many_may_share_one(self, counting: Path) -> None:
        assert self.calls(counting, 3, MAX_SESSION_SHARE_COUNT="2") == [1, 2, 1]

    def test_threads_and_compilation(self, counting: Path) -> None:
        config = tensorflow_config(
            parameters={"TF_NUM_INTRA_THREADS": "1", "TF_NUM_INTER_THREADS": "1", "TF_USE_PER_SESSION_THREADS": "true"},
            optimization=Optimization(graph_level=-1),
        )
        loaded = Loaded(counting, config).load()
        given = loaded.backend._sessions.take(Placement("m_0", InstanceKind.MODEL))._config
        assert (given.intra_op_parallelism_threads, given.inter_op_parallelism_threads) == (1, 1)
        assert given.use_per_session_threads
        assert given.allow_soft_placement
        assert given.graph_options.optimizer_options.global_jit_level == -1

    def test_a_gpu_that_is_not_there(self, counting: Path, caplog: pytest.LogCaptureFixture) -> None:
        group = InstanceGroup("m", InstanceKind.GPU, 1, (0,))
        accelerators = (Accelerator("auto_mixed_precision"), Accelerator("tensorrt"))
        config = tensorflow_config(instance_groups=(group,), optimization=Optimization(gpu_accelerators=accelerators))
        if tensorflow.config.list_physical_devices("GPU"):
            pytest.skip("there is a GPU")
        backend: Any = load_backend("tensorflow")(ModelFiles("m", 1, counting, counting / "1", gpus=(0,)))
        with caplog.at_level(logging.WARNING):
            backend.load(backend.auto_complete(config))
        assert "the installed tensorflow sees no GPU" in caplog.text
        assert "'tensorrt'" in caplog.text
        unknown = replace(config, optimization=Optimization(gpu_accelerators=(Accelerator("magic"),)))
        with pytest.raises(InvalidArgumentError, match=r"^unknown Execution Accelerator 'magic' is requested$"):
            backend.load(backend.auto_complete(unknown))


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "1" / "model.savedmodel").mkdir(parents=True)
    (tmp_path / "1" / "model.savedmodel" / "saved_model.pb").write_bytes(b"no model")
    with pytest.raises(InternalError) as caught:
        Loaded(tmp_path, tensorflow_config())
    assert caught.value.message.startswith(
        "unable to auto-complete model configuration for 'm', failed to load model: "
    )
    backend = load_backend("tensorflow")(ModelFiles("m", 1, tmp_path, tmp_path / "1"))
    with pytest.raises(InternalError, match=r"^failed to load model 'm': "):
        backend.load(pair(-1))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        Loaded(tmp_path, tensorflow_config())
    assert caught.value.message == f"unable to find '{tmp_path}/1/model.savedmodel' for model instance 'm'"


def test_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(UnavailableError, match=re.escape(install_command("tensorflow"))):
        load_backend("tensorflow")(ModelFiles("m", 1, tmp_path, tmp_path / "1"))
