"""Kubernetes quantities ("500m", "1Gi") in their canonical text, so that equal ones compare equal."""

import re
from decimal import Decimal
from typing import Any, Self

_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_BINARY = {name: Decimal(1024**power) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)}
_DECIMAL = {"m": Decimal("0.001"), "": Decimal(1), "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
            "T": Decimal(10**12), "P": Decimal(10**15)}  # fmt: skip

_FACTORS = {**_DECIMAL, **_BINARY}


class Quantity(str):
    """A quantity as the API server would write it back: `Quantity.parse("1024Mi") == "1Gi"`."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read a quantity from YAML, a number or a string. Raises ValueError."""
        match = _FORM.fullmatch(str(value)) if isinstance(value, int | float | str) else None
        if match is None or isinstance(value, bool):
            raise ValueError(f"must be a quantity such as 500m, 2 or 1.5Gi, not {value!r}")
        return cls(canonical(match[1], match[2] or ""))

    def number(self) -> Decimal:
        """The quantity in its base unit: bytes, cores, pieces."""
        suffix = self.lstrip("0123456789.")
        return Decimal(self.removesuffix(suffix)) * _FACTORS[suffix]


def canonical(digits: str, suffix: str) -> str:
    """The shortest form without a fraction in the suffix's family, as the API server stores it."""
    count = Decimal(digits) * _FACTORS[suffix]
    if suffix in _BINARY:
        for name, factor in reversed(_BINARY.items()):
            if count >= factor and count % factor == 0:
                return f"{int(count / factor)}{name}"
        return str(int(count.to_integral_value()))
    for name, factor in reversed(_DECIMAL.items()):
        if count % factor == 0:
            return f"{int(count / factor)}{name}" if count else "0"
    return f"{int((count * 1000).to_integral_value(rounding='ROUND_CEILING'))}m"


class Share(str):
    """A number of pods ("2") or a part of them ("25%")."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read from YAML, a whole number or a percentage. Raises ValueError."""
        if isinstance(value, bool) or re.fullmatch(r"[0-9]+|[0-9]{1,3}%", str(value)) is None:
            raise ValueError(f"must be a whole number or a percentage such as 25%, not {value!r}")
        return cls(value)

    def json(self) -> int | str:
        """As Kubernetes wants it: numbers are no strings."""
        return int(self) if self.isdigit() else str(self)
