"""Headers that become parameters."""

import pytest

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.forwarding import HeaderFilter
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.core.request import ParameterValue


def forward(pattern: str, *headers: tuple[str, str], **parameters: ParameterValue) -> dict[str, ParameterValue]:
    HeaderFilter(pattern, "flag").forward(headers, parameters)
    return parameters


def test_names_that_contain_a_match_are_forwarded_over_parameters_of_the_body() -> None:
    headers = (("X-Tenant", "a"), ("my-x-tenant", "b"), ("other", "c"), ("x", "d"))
    assert forward("x-ten", *headers, other="body") == {"other": "body", "X-Tenant": "a", "my-x-tenant": "b"}
    assert forward("^x$", *headers, x="body") == {"x": "d"}


def test_case_matters_only_when_asked_to() -> None:
    assert forward("(?-i)X-T", ("x-t", "a"), ("X-T", "b")) == {"X-T": "b"}


def test_no_pattern_forwards_nothing() -> None:
    assert not HeaderFilter("", "flag")
    assert forward("", ("x", "1")) == {}


@pytest.mark.parametrize("name", ["sequence_id", "priority", "timeout", "triton_x"])
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        forward(".*", (name, "1"))
    assert caught.value.message == f"Header '{name}' is reserved for Triton usage and cannot be forwarded."


def test_a_pattern_that_is_none_names_its_flag() -> None:
    with pytest.raises(OptionError, match="invalid regular expression for --http-header-forward-pattern") as caught:
        HeaderFilter("(", "http-header-forward-pattern")
    assert caught.value.flag == "http-header-forward-pattern"
