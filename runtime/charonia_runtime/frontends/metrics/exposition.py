"""
Metric families as Prometheus text, format 0.0.4, spelled as Triton spells it.

Families are prometheus_client's. Its own text is not used: counters would end in `_total`, whole numbers in `.0`, and
the dashboards and alerts that exist would look for other names.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from prometheus_client import Metric

from charonia_runtime.core.texts import utf8_text

CONTENT_TYPE: Final = "text/plain; charset=utf-8"

_LINES_AT_ONCE: Final = 256
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LAST_LABELS: Final = {"summary": "quantile", "histogram": "le"}
"""The label that tells a family's lines apart comes behind the labels of the series."""


def render(families: Iterable[Metric]) -> Iterator[str]:
    """The text of all families, in pieces that take a millisecond; a family without series has no text at all."""
    for family in families:
        if family.samples:
            text = utf8_text(family.documentation).translate(_HELP_ESCAPES)
            yield f"# HELP {family.name} {text}\n# TYPE {family.name} {family.type}\n"
            last = _LAST_LABELS.get(family.type, "")
            for start in range(0, len(family.samples), _LINES_AT_ONCE):
                yield "".join(
                    f"{sample.name}{label_text(sample.labels, last)} {number(sample.value)}\n"
                    for sample in family.samples[start : start + _LINES_AT_ONCE]
                )


def label_text(labels: Mapping[str, str], last: str = "") -> str:
    """Labels in braces, by the order of their names' bytes; the one called `last` comes last."""
    if not labels:
        return ""
    pairs = [
        f'{_label_name(name)}="{utf8_text(labels[name]).translate(_ESCAPES)}"'
        for name in sorted(labels)
        if name != last
    ]
    if last in labels:
        pairs.append(f'{last}="{labels[last]}"')
    return "{" + ",".join(pairs) + "}"


def _label_value(value: str) -> str:
    return utf8_text(value).translate(_ESCAPES)


def number(value: float) -> str:
    """A value in the digits that Triton prints."""
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "Nan"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.16g}"


@lru_cache(1024)
def _label_name(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)
