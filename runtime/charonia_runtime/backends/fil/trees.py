"""The trees of a model as arrays: what decides at each node, and the way to each leaf."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.errors import UnsupportedError

Array = npt.NDArray[Any]
_CATEGORICAL = 2
_COMPARISONS = {1: np.equal, 2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal}
"""treelite's operators: which rows go to the left."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf: what it adds to each class, and the nodes above it, each with whether its left child is the way."""

    values: Array
    steps: Sequence[tuple[int, bool]]


@dataclass(frozen=True, slots=True)
class Tree:
    """
    One tree. Arrays have an entry for each node; children of leaves are -1.

    `cover` is how much of the training data came through a node.
    """

    feature: Array
    threshold: Array
    comparison: Array
    missing_left: Array
    left: Array
    right: Array
    cover: Array
    categories: dict[int, tuple[Array, bool]]
    """The categories of a node that asks for them, and whether they go to the right."""
    leaf_values: Array
    """[nodes, classes]"""

    def leaves(self) -> Iterator[Leaf]:
        waiting: list[tuple[int, tuple[tuple[int, bool], ...]]] = [(0, ())]
        while waiting:
            node, steps = waiting.pop()
            if self.left[node] < 0:
                yield Leaf(self.leaf_values[node], steps)
            else:
                waiting.append((int(self.right[node]), (*steps, (node, False))))
                waiting.append((int(self.left[node]), (*steps, (node, True))))

    def share(self, node: int, *, left: bool) -> float:
        """How much of what came to a node went on to that child."""
        child = self.left[node] if left else self.right[node]
        total = self.cover[node]
        return float(self.cover[child] / total) if total else 0.5

    def goes_left(self, node: int, rows: Array) -> Array:
        """For each of `rows`, [rows, features], whether it goes to the left child of the node."""
        column = rows[:, self.feature[node]]
        if node in self.categories:
            listed, to_right = self.categories[node]
            decided = np.isin(column, listed) != to_right
        else:
            decided = _COMPARISONS[int(self.comparison[node])](column, self.threshold[node])
        return np.where(np.isnan(column), bool(self.missing_left[node]), decided)


def read_trees(model: Any) -> list[Tree]:
    """The trees of a `treelite.Model`. Raises UnsupportedError for one that does not say how it was trained."""
    header = model.get_header_accessor()
    classes = int(header.get_field("num_class")[0])
    class_ids = header.get_field("class_id")
    return [_tree(model.get_tree_accessor(index), classes, int(class_ids[index])) for index in range(model.num_tree)]


def _tree(accessor: Any, classes: int, class_id: int) -> Tree:
    field = accessor.get_field
    cover = field("sum_hess") if len(field("sum_hess_present")) else field("data_count")
    if not len(cover):
        raise UnsupportedError("the trees do not tell how much training data came through their nodes")
    kinds = field("node_type")
    begins, ends = field("category_list_begin"), field("category_list_end")
    to_right, listed = field("category_list_right_child"), field("category_list")
    return Tree(
        field("split_index").copy(),
        field("threshold").copy(),
        field("cmp").copy(),
        field("default_left").copy(),
        field("cleft").copy(),
        field("cright").copy(),
        cover.astype(np.float64),
        {
            int(node): (listed[int(begins[node]) : int(ends[node])].astype(np.float32), bool(to_right[node]))
            for node in np.flatnonzero(kinds == _CATEGORICAL)
        },
        _leaf_values(field, classes, class_id),
    )


def _leaf_values(field: Any, classes: int, class_id: int) -> Array:
    """What each node adds to each class: a vector of its own, or one number for the class of the tree."""
    begins, ends, vector = field("leaf_vector_begin"), field("leaf_vector_end"), field("leaf_vector")
    values = np.zeros((len(begins), classes))
    if len(vector):
        for node in np.flatnonzero(ends > begins):
            values[node] = vector[int(begins[node]) : int(ends[node])]
    else:
        values[:, max(class_id, 0)] = field("leaf_value")
    return values
