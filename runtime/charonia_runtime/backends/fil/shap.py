"""
Shapley values of trees: how much each feature of a row moved the prediction away from its mean.

For a leaf, the features on the way to it play together: a feature that is known lets the row pass or not, one that is
unknown lets it pass as often as the training data did. With pass `o` (0 or 1) and share `z` for each feature, and the
leaf's value `v`, the Shapley value of feature i is

    v (o_i - z_i) ∫ Π (t o_j + (1 - t) z_j) dt    over t from 0 to 1, j all features on the way but i

because the integral of t^k (1 - t)^(n - k) weighs a coalition of k as Shapley does. The integrand is a polynomial, for
which a sum over a few well-chosen points (Gauss and Legendre's) is exact, however deep the tree.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.backends.fil.trees import Leaf, Tree, read_trees

Array = npt.NDArray[Any]
_ELEMENTS_AT_ONCE = 1 << 20
"""Numbers in one array of the computation, which bounds its memory."""


class Explainer:
    """The leaves of a model laid out in arrays; reads the model once, explains rows as often as one likes."""

    def __init__(self, model: Any) -> None:
        """Raises UnsupportedError for trees that do not tell how they were trained."""
        header = model.get_header_accessor()
        self._features = int(model.num_feature)
        trees = read_trees(model)
        self._divisor = len(trees) if int(header.get_field("average_tree_output")[0]) else 1
        self._trees = [_LeavesOfTree(tree) for tree in trees]
        means = np.sum([tree.mean for tree in self._trees], axis=0) / self._divisor
        self._bias = means + np.asarray(header.get_field("base_scores"), np.float64)

    def explain(self, rows: Array) -> npt.NDArray[np.float32]:
        """Rows as [rows, features] → [rows, classes, features + 1]; the last value is the mean prediction."""
        explained = np.zeros((len(rows), len(self._bias), self._features + 1))
        for tree in self._trees:
            step = max(_ELEMENTS_AT_ONCE // tree.size, 1)
            for start in range(0, len(rows), step):
                tree.add(rows[start : start + step], explained[start : start + step])
        explained /= self._divisor
        explained[:, :, -1] = self._bias
        return explained.astype(np.float32)


class _LeavesOfTree:
    """
    The ways to all leaves of one tree, side by side: [leaves, players].

    A player is a feature that decides on the way, perhaps at several nodes. Ways that are shorter than the longest have
    players that change nothing, since they let everything pass.
    """

    def __init__(self, tree: Tree) -> None:
        leaves = list(tree.leaves())
        ways = [_players(tree, leaf) for leaf in leaves]
        longest = max(map(len, ways))
        self._tree = tree
        self._values = np.array([leaf.values for leaf in leaves])
        self._shares = np.ones((len(ways), longest))
        self._features = np.zeros((len(ways), longest), np.intp)
        steps: list[tuple[int, bool]] = []
        starts: list[int] = []
        places: list[int] = []
        for leaf, players in enumerate(ways):
            for player, (feature, nodes) in enumerate(players):
                self._shares[leaf, player] = np.prod([tree.share(node, left=left) for node, left in nodes])
                self._features[leaf, player] = feature
                starts.append(len(steps))
                places.append(leaf * longest + player)
                steps += nodes
        self._nodes = sorted({node for node, _ in steps})
        columns = {node: column for column, node in enumerate(self._nodes)}
        self._columns = np.array([columns[node] for node, _ in steps], np.intp)
        self._sides = np.array([left for _, left in steps], bool)
        self._starts, self._places = np.array(starts, np.intp), np.array(places, np.intp)
        points, weights = np.polynomial.legendre.leggauss(max((longest + 1) // 2, 1))
        self._points = [((point + 1) / 2, weight / 2) for point, weight in zip(points, weights, strict=True)]
        self.mean = self._shares.prod(axis=1) @ self._values
        self.size = max(self._shares.size, 1)

    def add(self, rows: Array, explained: Array) -> None:
        """Add this tree's part of every row to `explained`, as `Explainer.explain` gives it."""
        if not self._nodes:
            return
        passes = self._passes(rows)
        weights = np.zeros_like(passes)
        for point, weight in self._points:
            weights += weight * _products_of_others(point * passes + (1 - point) * self._shares)
        moved = (passes - self._shares) * weights
        features = explained.shape[2]
        cells = (np.arange(len(rows))[:, None, None] * features + self._features).reshape(-1)
        for column in range(explained.shape[1]):
            shares = (moved * self._values[:, column, None]).reshape(-1)
            explained[:, column] += np.bincount(cells, shares, len(rows) * features).reshape(len(rows), features)

    def _passes(self, rows: Array) -> Array:
        """Whether each player lets each row pass, as [rows, leaves, players] of 0 and 1."""
        decisions = np.stack([self._tree.goes_left(node, rows) for node in self._nodes], axis=1)
        agree = decisions[:, self._columns] == self._sides
        passes = np.ones((len(rows), self._shares.size))
        passes[:, self._places] = np.logical_and.reduceat(agree, self._starts, axis=1)
        return passes.reshape(len(rows), *self._shares.shape)


def _players(tree: Tree, leaf: Leaf) -> list[tuple[int, Sequence[tuple[int, bool]]]]:
    """The features on the way to a leaf, each with the nodes where it decides."""

    def feature(step: tuple[int, bool]) -> int:
        return int(tree.feature[step[0]])

    return [(key, list(steps)) for key, steps in groupby(sorted(leaf.steps, key=feature), key=feature)]


def _products_of_others(factors: Array) -> Array:
    """Along the last axis, the product of all factors but each one; without division, since they may be 0."""
    before = np.ones_like(factors)
    np.cumprod(factors[..., :-1], axis=-1, out=before[..., 1:])
    after = np.ones_like(factors)
    np.cumprod(factors[..., :0:-1], axis=-1, out=after[..., -2::-1])
    return before * after
