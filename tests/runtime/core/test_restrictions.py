"""Restricted categories and their secrets."""

import pytest

from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.core.restrictions import Restriction, parse_restrictions


def parse(*values: str) -> dict[str, Restriction]:
    return dict(
        parse_restrictions(
            values,
            flag="grpc-restricted-protocol",
            noun="protocol",
            kind="protocol",
            header_prefix="triton-grpc-protocol-",
        )
    )


def test_categories_share_a_header() -> None:
    found = parse("health,inference:key=a=b:c", "trace:other=")
    assert found["health"] == found["inference"] == Restriction("triton-grpc-protocol-key", "a=b:c", "protocol")
    assert found["trace"].value == ""


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (("health",), "--grpc-restricted-protocol option format is '<config name>:<setting>=<value>'. Got health"),
        (
            ("health:key",),
            "--grpc-restricted-protocol option format is '<config name>:<setting>=<value>'. Got health:key",
        ),
        (("bogus:k=v",), "unknown restricted protocol 'bogus' "),
        (
            ("health:k=v", "trace,health:k=v"),
            "restricted protocol 'health' can not be specified in multiple config groups",
        ),
    ],
)
def test_malformed_values(values: tuple[str, ...], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(*values)
    assert (caught.value.message, caught.value.flag) == (text, "grpc-restricted-protocol")


def test_only_the_secret_opens() -> None:
    restriction = parse("health:key=secret")["health"]
    restriction.check("secret")
    for value in (None, "", "Secret", "secret ", "gehéim"):
        with pytest.raises(UnavailableError) as caught:
            restriction.check(value)
        assert caught.value.message == "This protocol is restricted, expecting header 'triton-grpc-protocol-key'"
