import pytest

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import ANY_VERSION
from charonia_runtime.protocols.model_version import parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("", ANY_VERSION),
        ("1", 1),
        ("01", 1),
        ("0", 0),
        ("1x", 1),
        (" 7", 7),
        ("+3", 3),
        ("-0", 0),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_versions(text: str, version: int) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["abc", str(2**63), "9" * 5000, "x1"])
def test_no_number(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_version(text)
    assert caught.value.message == (
        f"failed to get model version from specified version string '{text}' (details: stol), version should be an "
        "integral value > 0"
    )


def test_negative() -> None:
    with pytest.raises(InvalidArgumentError, match="invalid model version specified '-1' , version should be"):
        parse_version("-1")
