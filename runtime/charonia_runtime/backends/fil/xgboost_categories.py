"""
XGBoost models that were trained on a data frame with categories: readable once their table of categories is taken out.

XGBoost 3.1 and newer write the table beside the trees, to translate the categories of other data frames. The trees
themselves ask for codes: the positions of the categories in the training data. treelite refuses such a file, and
clients of a server send numbers anyway, so the codes are what input tensors must hold.
"""

import json
import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

_logger = logging.getLogger(__name__)

_NO_CATEGORIES: Final[dict[str, list[Any]]] = {"enc": [], "feature_segments": [], "sorted_idx": []}
_SHOWN = 20


def without_categories(path: Path, model: str) -> str | None:
    """
    Return the JSON document of an XGBoost model without its table of categories; None where there is none to remove.

    The codes that each feature takes are logged for `model`. Binary formats (UBJSON) are not read.
    """
    try:
        document: Any = json.loads(path.read_bytes())
        booster = document["learner"]["gradient_booster"]
        trees = booster.get("gbtree", booster)["model"]  # dart keeps its trees one level deeper
        table = trees["cats"]["enc"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not table:
        return None
    _log_codes(document["learner"].get("feature_names") or (), table, model)
    trees["cats"] = _NO_CATEGORIES
    return json.dumps(document)


def _log_codes(names: Sequence[str], table: Sequence[dict[str, Any]], model: str) -> None:
    for index, encoded in enumerate(table):
        categories = _categories(encoded)
        if categories:
            name = names[index] if index < len(names) else index
            codes = ", ".join(f"{code}={category}" for code, category in enumerate(categories[:_SHOWN]))
            more = ", …" if len(categories) > _SHOWN else ""
            _logger.info("model '%s': feature '%s' takes codes of categories: %s%s", model, name, codes, more)


def _categories(encoded: dict[str, Any]) -> list[str]:
    """Return the categories of one feature in the order of their codes: texts in one array of bytes, or numbers."""
    values = encoded.get("values") or []
    offsets = encoded.get("offsets")
    if not offsets:
        return [str(value) for value in values]
    joined = bytes(value % 256 for value in values)
    return [joined[begin:end].decode(errors="replace") for begin, end in pairwise(offsets)]
