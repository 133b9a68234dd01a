"""
Families of series as Prometheus text, format 0.0.4, spelled as Triton spells it.

Triton's counters have names without `_total` and whole numbers without decimals; NaN is `Nan`. The official client
library rewrites all three, which would break the dashboards and alerts that exist; hence the few lines here.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

CONTENT_TYPE: Final = "text/plain; charset=utf-8"

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(slots=True)
class Family:
    """One metric: its name, type and help, and the lines of its series."""

    name: str
    kind: str
    text: str
    lines: list[str] = field(default_factory=list)

    def add(self, value: float, labels: str = "", suffix: str = "") -> "Family":
        """Append a series. `labels` is what `label_text` gives; `suffix` ends the name of parts of a summary."""
        self.lines.append(f"{self.name}{suffix}{labels} {number(value)}\n")
        return self


def render(families: Iterable[Family]) -> bytes:
    """The text of all families, one behind the other; one without series has no text at all."""
    return "".join(
        f"# HELP {family.name} {family.text}\n# TYPE {family.name} {family.kind}\n{''.join(family.lines)}"
        for family in families
        if family.lines
    ).encode()


def label_text(labels: Mapping[str, str], quantile: str = "") -> str:
    """Labels in braces, by the order of their names' bytes; a summary's quantile comes last."""
    pairs = sorted((_NOT_IN_NAMES.sub("_", name), value.translate(_ESCAPES)) for name, value in labels.items())
    if quantile:
        pairs.append(("quantile", quantile))
    return "{" + ",".join(f'{name}="{value}"' for name, value in pairs) + "}" if pairs else ""


def number(value: float) -> str:
    """A value in the digits that Triton prints."""
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "Nan"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.16g}"
