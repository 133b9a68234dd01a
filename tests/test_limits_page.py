"""The limits that the documentation names are those of the flags."""

import re
from pathlib import Path

import pytest

from charonia_runtime.options import serve_flags

PAGE = Path(__file__).parent.parent / "runtime/docs/limits.md"
ROWS = re.findall(r"\| `--([a-z-]+)` \| (\d+) \|", PAGE.read_text())


@pytest.mark.parametrize(("flag", "default"), ROWS)
def test_the_default_of_a_limit(flag, default):
    text = " ".join(serve_flags().help().split())

    (found,) = re.findall(rf"--{flag} <integer> .*?Default: (\d+)\.", text)
    assert found == default


def test_every_time_limit_of_clients_is_on_the_page():
    flags = set(
        re.findall(r"--((?:http|grpc)-[a-z]+-timeout-secs)\b", serve_flags().help().replace("-\n        ", "-"))
    )

    assert flags <= {flag for flag, _ in ROWS}
