"""What a module of `targets` holds, and how it is found."""

import importlib
import pkgutil
from pathlib import Path
from typing import Protocol, cast


class Target(Protocol):
    """
    One parser: valid inputs to begin with, and a function that raises where an input breaks it.

    A target that is slow has `CHANGES`, the number of inputs in the default tests.
    """

    SEEDS: tuple[bytes, ...]

    def check(self, data: bytes) -> None: ...


def target_names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "targets")]))


def load_target(name: str) -> Target:
    return cast("Target", importlib.import_module(f"tests.fuzzing.targets.{name}"))
