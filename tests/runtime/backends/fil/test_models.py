"""Tree models of every format, against the frameworks that made them."""

import logging
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

treelite = pytest.importorskip("treelite", reason="the package treelite is not installed")

from charonia_runtime.backends import load_backend  # noqa: E402
from charonia_runtime.core.backend import ModelFiles  # noqa: E402
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement  # noqa: E402
from charonia_runtime.core.datatypes import DataType  # noqa: E402
from charonia_runtime.core.errors import (  # noqa: E402
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from charonia_runtime.core.scheduling import DynamicBatching  # noqa: E402
from charonia_runtime.installation import install_command  # noqa: E402
from tests.support.batches import a_batch  # noqa: E402
from tests.support.configs import a_config, a_tensor  # noqa: E402
from tests.support.loaded_models import execute  # noqa: E402

FP32 = DataType.FP32
FEATURES = 5
GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.random((200, FEATURES), np.float32)
TARGETS = {"binary": (ROWS[:, 0] > 0.5).astype(int), "multi": (ROWS[:, 0] * 3).astype(int), "value": ROWS[:, 0] * 2}


def config(*dims: int, classifier: bool = True, features: int = FEATURES, **parameters: str) -> ModelConfig:
    return a_config(
        "m",
        backend="fil",
        max_batch_size=1024,
        inputs=(a_tensor("input__0", FP32, features),),
        outputs=(a_tensor("output__0", FP32, *dims),),
        parameters={"is_classifier": str(classifier).lower(), **parameters},
    )


def answers(directory: Path, given: ModelConfig, *parts: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    backend: Any = load_backend("fil")(ModelFiles("m", 1, directory, directory / "1"))
    backend.load(backend.auto_complete(given))
    instance = backend.create_instance(Placement("m_0", InstanceKind.CPU))
    batch = execute(instance, a_batch(given, *[{"input__0": part} for part in parts]))
    return [batch.arrays_of(index)["output__0"] for index in range(len(parts))]


@pytest.fixture
def version(tmp_path: Path) -> Path:
    (tmp_path / "1").mkdir()
    return tmp_path / "1"


class TestXGBoost:
    @pytest.fixture
    def trained(self) -> Callable[[str], Any]:
        xgboost = pytest.importorskip("xgboost", reason="the package xgboost is not installed")
        objectives = {"binary": "binary:logistic", "multi": "multi:softprob", "value": "reg:squarederror"}

        def train(kind: str) -> Any:
            options = {"objective": objectives[kind], "max_depth": 3, "nthread": 1}
            if kind == "multi":
                options["num_class"] = 3
            booster = xgboost.train(options, xgboost.DMatrix(ROWS, TARGETS[kind]), 4)
            return booster, booster.predict(xgboost.DMatrix(ROWS))

        return train

    @pytest.mark.parametrize(
        ("model_type", "filename"), [("xgboost_json", "xgboost.json"), ("xgboost_ubj", "xgboost.ubj")]
    )
    def test_formats(self, model_type: str, filename: str, trained: Any, version: Path) -> None:
        booster, expected = trained("value")
        booster.save_model(version / filename)
        (answer,) = answers(version.parent, config(1, classifier=False, model_type=model_type), ROWS)
        np.testing.assert_allclose(answer, expected, rtol=1e-6)

    def test_newer_formats_under_the_name_of_the_older(self, trained: Any, version: Path) -> None:
        booster, expected = trained("value")
        booster.save_model(version / "xgboost.json")
        (version / "xgboost.json").rename(version / "xgboost.model")
        (answer,) = answers(version.parent, config(1, classifier=False), ROWS)
        np.testing.assert_allclose(answer, expected, rtol=1e-6)

    def test_classes(self, trained: Any, version: Path) -> None:
        booster, expected = trained("binary")
        booster.save_model(version / "xgboost.json")
        first, second = answers(version.parent, config(1, model_type="xgboost_json"), ROWS[:3], ROWS[3:])
        assert first.shape == (3,)
        np.testing.assert_array_equal(np.concatenate([first, second]), expected > 0.5)

    def test_probabilities_of_two_classes(self, trained: Any, version: Path) -> None:
        booster, expected = trained("binary")
        booster.save_model(version / "xgboost.json")
        (answer,) = answers(version.parent, config(2, model_type="xgboost_json", predict_proba="true"), ROWS)
        np.testing.assert_allclose(answer, np.stack([1 - expected, expected], axis=1), rtol=1e-5, atol=1e-6)

    def test_probabilities_of_more(self, trained: Any, version: Path) -> None:
        booster, expected = trained("multi")
        booster.save_model(version / "xgboost.json")
        (answer,) = answers(version.parent, config(3, model_type="xgboost_json", predict_proba="true"), ROWS)
        np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)

    def test_missing_values(self, trained: Any, version: Path) -> None:
        xgboost = pytest.importorskip("xgboost")
        booster, _ = trained("value")
        booster.save_model(version / "xgboost.json")
        missing = np.full((2, FEATURES), np.nan, np.float32)
        (answer,) = answers(version.parent, config(1, classifier=False, model_type="xgboost_json"), missing)
        np.testing.assert_allclose(answer, booster.predict(xgboost.DMatrix(missing)), rtol=1e-6)

    @pytest.fixture
    def with_categories(self) -> Any:
        """A booster trained on a data frame with a column of categories, its rows as codes, and its predictions."""
        xgboost = pytest.importorskip("xgboost", minversion="3.1", reason="needs the package xgboost, 3.1 or newer")
        pandas = pytest.importorskip("pandas", reason="the package pandas is not installed")
        colours = pandas.Categorical(GENERATOR.choice(["red", "green", "blue"], 200))
        frame = pandas.DataFrame({"colour": colours, "size": GENERATOR.random(200)})
        data = xgboost.DMatrix(frame, (colours == "red") ^ (frame["size"] > 0.5), enable_categorical=True)
        booster = xgboost.train({"max_depth": 3, "nthread": 1}, data, 4)
        return booster, np.column_stack([colours.codes, frame["size"]]).astype(np.float32), booster.predict(data)

    def test_categories_are_taken_as_codes(self, with_categories: Any, version: Path, caplog: Any) -> None:
        booster, codes, expected = with_categories
        booster.save_model(version / "xgboost.json")
        with caplog.at_level(logging.INFO):
            given = config(1, classifier=False, features=2, model_type="xgboost_json")
            (answer,) = answers(version.parent, given, codes)
        np.testing.assert_allclose(answer, expected, rtol=1e-5)
        assert "model 'm': feature 'colour' takes codes of categories: 0=blue, 1=green, 2=red" in caplog.messages

    def test_categories_in_a_binary_file(self, with_categories: Any, version: Path) -> None:
        with_categories[0].save_model(version / "xgboost.ubj")
        with pytest.raises(InternalError) as caught:
            answers(version.parent, config(1, classifier=False, features=2, model_type="xgboost_ubj"), ROWS)
        assert caught.value.message == (
            "failed to load model 'm': 'xgboost.ubj' was trained on a data frame with categories, which can be read from "
            "JSON only: save it with save_model('xgboost.json'), and set model_type to xgboost_json"
        )


def test_lightgbm(version: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="the package lightgbm is not installed")
    data = lightgbm.Dataset(ROWS.astype(np.float64), TARGETS["multi"])
    booster = lightgbm.train({"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1}, data, 4)
    booster.save_model(version / "model.txt")
    (answer,) = answers(version.parent, config(1, model_type="lightgbm"), ROWS)
    np.testing.assert_array_equal(answer, booster.predict(ROWS.astype(np.float64)).argmax(axis=1))


@pytest.fixture
def forest(version: Path) -> RandomForestClassifier:
    trained = RandomForestClassifier(5, max_depth=3, random_state=0).fit(ROWS, TARGETS["multi"])
    treelite.sklearn.import_model(trained).serialize(version / "checkpoint.tl")
    return trained


def test_a_checkpoint_of_scikit_learn(forest: RandomForestClassifier, version: Path) -> None:
    given = config(3, model_type="treelite_checkpoint", predict_proba="true")
    (answer,) = answers(version.parent, given, ROWS)
    np.testing.assert_allclose(answer, forest.predict_proba(ROWS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            config(1, features=4, model_type="treelite_checkpoint"),
            InvalidArgumentError,
            "model 'm': input 'input__0' must have dims [ 5 ], the number of the model's features",
        ),
        (
            config(2, model_type="treelite_checkpoint", predict_proba="true"),
            InvalidArgumentError,
            "model 'm': output 'output__0' must have dims [ 3 ], what the model gives for each row",
        ),
        (
            a_config("m", inputs=(a_tensor("X", FP32, 5),), outputs=(a_tensor("output__0", FP32, 1),),
                     parameters={"is_classifier": "true", "model_type": "treelite_checkpoint"}),
            InvalidArgumentError,
            "model 'm': the fil backend has one input, 'input__0' of data_type TYPE_FP32",
        ),
        (
            a_config("m", max_batch_size=0, parameters={"is_classifier": "true", "model_type": "treelite_checkpoint"}),
            InvalidArgumentError,
            "model 'm': max_batch_size must be greater than 0 for the fil backend",
        ),
        (
            a_config("m", inputs=(a_tensor("input__0", FP32, 5),),
                     outputs=(a_tensor("output__0", FP32, 1), a_tensor("treeshap_output", FP32, 6)),
                     parameters={"is_classifier": "true", "model_type": "treelite_checkpoint"}),
            InvalidArgumentError,
            (
                "model 'm': output 'treeshap_output' must have dims [ 3, 6 ], a value for each feature and their mean"
            ),
        ),
        (
            a_config("m", inputs=(a_tensor("input__0", FP32, 5),),
                     outputs=(a_tensor("output", FP32, 1), a_tensor("treeshap_output", FP32, 6)),
                     parameters={"is_classifier": "true", "model_type": "treelite_checkpoint"}),
            InvalidArgumentError,
            (
                "model 'm': the fil backend has one output, 'output__0' of data_type TYPE_FP32, besides "
                "'treeshap_output'"
            ),
        ),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("forest")
def test_configurations_that_do_not_fit(given: ModelConfig, error: type[Exception], text: str, version: Path) -> None:
    with pytest.raises(error) as caught:
        answers(version.parent, given)
    assert str(caught.value) == text


def blank(**parameters: str) -> ModelConfig:
    return a_config("m", backend="fil", max_batch_size=0, inputs=(), outputs=(), parameters=parameters)


def completed(directory: Path, given: ModelConfig, **settings: str) -> ModelConfig:
    backend: Any = load_backend("fil")(ModelFiles("m", 1, directory, directory / "1", settings))
    config: ModelConfig = backend.auto_complete(given)
    backend.load(config)
    return config


@pytest.mark.usefixtures("forest")
class TestCompletion:
    def test_everything(self, version: Path) -> None:
        made = completed(version.parent, blank(), **{"default-max-batch-size": "16"})
        assert (made.max_batch_size, made.scheduling) == (16, DynamicBatching())
        assert made.inputs == (a_tensor("input__0", FP32, FEATURES),)
        assert made.outputs == (a_tensor("output__0", FP32, 1),)
        assert made.parameters == {"model_type": "treelite_checkpoint", "is_classifier": "true"}

    def test_what_is_configured_stays(self, version: Path) -> None:
        given = replace(blank(predict_proba="true", output_class="true"), max_batch_size=64)
        made = completed(version.parent, given)
        assert made.max_batch_size == 64
        assert made.outputs == (a_tensor("output__0", FP32, 3),)
        assert made.parameters == {
            "model_type": "treelite_checkpoint", "predict_proba": "true", "output_class": "true",
        }  # fmt: skip
        whole = config(1, model_type="treelite_checkpoint")
        assert completed(version.parent, whole) == whole

    def test_values_are_no_classes(self, version: Path) -> None:
        treelite.sklearn.import_model(RandomForestRegressor(2, max_depth=2).fit(ROWS, TARGETS["value"])).serialize(
            version / "checkpoint.tl"
        )
        assert completed(version.parent, blank()).parameters["is_classifier"] == "false"


class TestScikitLearn:
    """Its models reach the backend as treelite checkpoints."""

    @pytest.fixture(params=["forest", "extra", "boosted", "histogram"])
    def classifier(self, request: pytest.FixtureRequest, version: Path) -> Any:
        kinds: dict[str, Callable[[], Any]] = {
            "forest": lambda: RandomForestClassifier(4, max_depth=4, random_state=0),
            "extra": lambda: ExtraTreesClassifier(4, max_depth=4, random_state=0),
            "boosted": lambda: GradientBoostingClassifier(n_estimators=4, random_state=0),
            "histogram": lambda: HistGradientBoostingClassifier(max_iter=4, random_state=0),
        }
        trained = kinds[request.param]().fit(ROWS, TARGETS["multi"])
        treelite.sklearn.import_model(trained).serialize(version / "checkpoint.tl")
        return trained

    def test_probabilities(self, classifier: Any, version: Path) -> None:
        given = config(3, model_type="treelite_checkpoint", predict_proba="true")
        (answer,) = answers(version.parent, given, ROWS)
        np.testing.assert_allclose(answer, classifier.predict_proba(ROWS), rtol=1e-5, atol=1e-6)

    def test_classes(self, classifier: Any, version: Path) -> None:
        (answer,) = answers(version.parent, config(1, model_type="treelite_checkpoint"), ROWS)
        np.testing.assert_array_equal(answer, classifier.predict(ROWS))

    def test_two_classes_and_a_threshold(self, version: Path) -> None:
        trained = GradientBoostingClassifier(n_estimators=4, random_state=0).fit(ROWS, TARGETS["binary"])
        treelite.sklearn.import_model(trained).serialize(version / "checkpoint.tl")
        likely = trained.predict_proba(ROWS)[:, 1]
        middle = float(np.median(likely))
        (answer,) = answers(
            version.parent, config(1, model_type="treelite_checkpoint", threshold=f"{middle:.6f}"), ROWS
        )
        np.testing.assert_array_equal(answer, likely > float(f"{middle:.6f}"))

    def test_values(self, version: Path) -> None:
        trained = RandomForestRegressor(4, max_depth=5, random_state=0).fit(ROWS, TARGETS["value"])
        treelite.sklearn.import_model(trained).serialize(version / "checkpoint.tl")
        (answer,) = answers(version.parent, config(1, classifier=False, model_type="treelite_checkpoint"), ROWS)
        np.testing.assert_allclose(answer, trained.predict(ROWS), rtol=1e-5)


@pytest.mark.usefixtures("forest")
class TestExplanations:
    GIVEN = replace(
        config(3, model_type="treelite_checkpoint", predict_proba="true"),
        outputs=(a_tensor("treeshap_output", FP32, 3, FEATURES + 1), a_tensor("output__0", FP32, 3)),
    )

    def test_they_add_up_to_the_answer(self, version: Path) -> None:
        backend: Any = load_backend("fil")(ModelFiles("m", 1, version.parent, version))
        backend.load(self.GIVEN)
        instance = backend.create_instance(Placement("m_0", InstanceKind.CPU))
        batch = execute(instance, a_batch(self.GIVEN, {"input__0": ROWS[:2]}, {"input__0": ROWS[2:5]}))
        for index, rows in enumerate((2, 3)):
            outputs = batch.arrays_of(index)
            assert outputs["treeshap_output"].shape == (rows, 3, FEATURES + 1)
            np.testing.assert_allclose(outputs["treeshap_output"].sum(axis=2), outputs["output__0"], atol=1e-6)

    def test_nobody_waits_for_what_nobody_asks(self, version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        backend: Any = load_backend("fil")(ModelFiles("m", 1, version.parent, version))
        backend.load(self.GIVEN)
        instance = backend.create_instance(Placement("m_0", InstanceKind.CPU))
        monkeypatch.delattr(instance._explainer.__class__, "explain")
        batch = execute(instance, a_batch(self.GIVEN, {"input__0": ROWS[:2]}, outputs=["output__0"]))
        assert list(batch.arrays_of(0)) == ["output__0"]


def test_the_file_s_name_tells_its_format(version: Path, forest: RandomForestClassifier) -> None:
    given = replace(config(1), default_model_filename="checkpoint.tl")
    for one in (given, config(1)):
        (answer,) = answers(version.parent, one, ROWS)
        np.testing.assert_array_equal(answer, forest.predict(ROWS))


def test_a_missing_file(version: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        answers(version.parent, config(1))
    assert caught.value.message == f"unable to find '{version}/xgboost.model' for model instance 'm'"


@pytest.mark.parametrize("model_type", ["xgboost_json", "lightgbm", "treelite_checkpoint"])
def test_a_file_that_is_something_else(model_type: str, version: Path) -> None:
    (version / "model").write_bytes(b"no trees")
    given = replace(config(1, model_type=model_type), default_model_filename="model")
    with pytest.raises(InternalError, match=r"^failed to load model 'm': "):
        answers(version.parent, given)


def test_a_missing_library(version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "treelite", None)
    with pytest.raises(UnavailableError, match=re.escape(install_command("fil"))):
        answers(version.parent, config(1))
