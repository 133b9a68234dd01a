"""Shapley values: against their definition, and against the libraries that have their own."""

from itertools import combinations
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

treelite = pytest.importorskip("treelite", reason="the package treelite is not installed")

from charonia_runtime.backends.fil import shap  # noqa: E402
from charonia_runtime.backends.fil.shap import Explainer  # noqa: E402
from charonia_runtime.backends.fil.trees import Tree, read_trees  # noqa: E402
from charonia_runtime.core.errors import UnsupportedError  # noqa: E402

FEATURES = 4
GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.random((60, FEATURES), np.float32)
VALUES = ROWS[:, 0] * 2 + ROWS[:, 1] * ROWS[:, 2]
CLASSES = (ROWS[:, 0] * 3).astype(int)
WITH_GAPS = ROWS.copy()
WITH_GAPS[::3, 0] = np.nan
WITH_GAPS[7] = np.nan


def expected_value(tree: Tree, row: np.ndarray[Any, Any], known: frozenset[int], node: int = 0) -> float:
    """What the tree says on average of rows that are like `row` in the features that are `known`."""
    if tree.left[node] < 0:
        return float(tree.leaf_values[node, 0])
    if int(tree.feature[node]) in known:
        left = bool(tree.goes_left(node, row[None])[0])
        return expected_value(tree, row, known, int(tree.left[node] if left else tree.right[node]))
    share = tree.share(node, left=True)
    return share * expected_value(tree, row, known, int(tree.left[node])) + (1 - share) * expected_value(
        tree, row, known, int(tree.right[node])
    )


def by_definition(trees: list[Tree], row: np.ndarray[Any, Any]) -> list[float]:
    values = []
    for feature in range(FEATURES):
        others = [other for other in range(FEATURES) if other != feature]
        total = 0.0
        for size in range(FEATURES):
            weight = factorial(size) * factorial(FEATURES - size - 1) / factorial(FEATURES)
            for chosen in combinations(others, size):
                known = frozenset(chosen)
                for tree in trees:
                    total += weight * (expected_value(tree, row, known | {feature}) - expected_value(tree, row, known))
        values.append(total / len(trees))
    return values


@pytest.fixture(scope="module")
def forest() -> Any:
    return treelite.sklearn.import_model(RandomForestRegressor(3, max_depth=6, random_state=0).fit(ROWS, VALUES))


def test_they_are_what_shapley_defined(forest: Any) -> None:
    trees = read_trees(forest)
    explained = Explainer(forest).explain(ROWS[:4])
    for row, values in zip(ROWS[:4], explained[:, 0], strict=True):
        np.testing.assert_allclose(values[:-1], by_definition(trees, row), atol=1e-6)
        mean = np.mean([expected_value(tree, row, frozenset()) for tree in trees])
        np.testing.assert_allclose(values[-1], mean, rtol=1e-6)


def test_large_batches_are_explained_in_parts(forest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Explainer(forest).explain(ROWS)
    monkeypatch.setattr(shap, "_ELEMENTS_AT_ONCE", 1000)
    np.testing.assert_array_equal(Explainer(forest).explain(ROWS), whole)


@pytest.mark.parametrize(("objective", "targets"), [
    ("reg:squarederror", VALUES), ("binary:logistic", CLASSES > 1), ("multi:softprob", CLASSES),
])  # fmt: skip
def test_against_xgboost(objective: str, targets: Any, tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost", reason="the package xgboost is not installed")
    options = {"objective": objective, "max_depth": 4, "nthread": 1, "min_child_weight": 0}
    if objective.startswith("multi"):
        options["num_class"] = 3
    booster = xgboost.train(options, xgboost.DMatrix(ROWS, targets), 5)
    booster.save_model(tmp_path / "model.json")
    explained = Explainer(treelite.frontend.load_xgboost_model(tmp_path / "model.json")).explain(WITH_GAPS)
    expected = booster.predict(xgboost.DMatrix(WITH_GAPS), pred_contribs=True)
    np.testing.assert_allclose(explained, expected.reshape(explained.shape), atol=2e-6)


@pytest.mark.parametrize("categorical", [False, True])
def test_against_lightgbm(categorical: bool, tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="the package lightgbm is not installed")
    rows = WITH_GAPS.astype(np.float64)
    rows[:, 3] = GENERATOR.integers(0, 8, len(rows))
    targets = VALUES + (rows[:, 3] % 3 if categorical else 0)
    options = {
        "objective": "regression", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 2, "min_data_per_group": 1,
        "max_cat_to_onehot": 2, "cat_smooth": 0,
    }  # fmt: skip
    data = lightgbm.Dataset(rows, targets, categorical_feature=[3] if categorical else [])
    booster = lightgbm.train(options, data, 5)
    booster.save_model(tmp_path / "model.txt")
    explained = Explainer(treelite.frontend.load_lightgbm_model(tmp_path / "model.txt")).explain(
        rows.astype(np.float32)
    )
    np.testing.assert_allclose(explained[:, 0], booster.predict(rows, pred_contrib=True), atol=2e-6)


def test_deep_trees() -> None:
    """A chain of 40 nodes, each with a feature of its own."""
    rows = np.tril(np.ones((40, 40), np.float32))
    chain = RandomForestRegressor(1, bootstrap=False, max_features=None, random_state=0).fit(rows, 4.0 ** np.arange(40))
    assert chain.estimators_[0].get_depth() > 32
    explained = Explainer(treelite.sklearn.import_model(chain)).explain(rows)
    predicted = chain.predict(rows)
    np.testing.assert_allclose(explained[:, 0].sum(axis=1), predicted, atol=1e-5 * predicted.max())


def test_trees_that_do_not_tell_how_they_were_trained() -> None:
    builder = treelite.model_builder.ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=treelite.model_builder.Metadata(
            num_feature=1, task_type="kRegressor", average_tree_output=False, num_target=1, num_class=[1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=treelite.model_builder.TreeAnnotation(num_tree=1, target_id=[0], class_id=[0]),
        postprocessor=treelite.model_builder.PostProcessorFunc(name="identity"),
        base_scores=[0.0],
    )  # fmt: skip
    builder.start_tree()
    builder.start_node(0)
    builder.numerical_test(0, 0.5, default_left=True, opname="<", left_child_key=1, right_child_key=2)
    builder.end_node()
    for key in (1, 2):
        builder.start_node(key)
        builder.leaf(float(key))
        builder.end_node()
    builder.end_tree()
    with pytest.raises(UnsupportedError, match=r"^the trees do not tell how much training data came"):
        Explainer(builder.commit())
