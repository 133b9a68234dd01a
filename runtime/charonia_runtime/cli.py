"""The composition root: the only place that wires options, engine and frontends together."""


def main() -> None:
    """The `charonia` command."""


def tritonserver() -> None:
    """`tritonserver`: an alias of `charonia serve` that takes Triton's flags."""
