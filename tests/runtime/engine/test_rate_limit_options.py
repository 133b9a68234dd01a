import pytest

from charonia_runtime.core.frontend import OptionError
from charonia_runtime.engine.execution.rate_limiter import RateLimiter, ResourceLimit
from charonia_runtime.engine.rate_limit_options import RateLimitOptions

FORMAT = "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got "


def test_off_by_default():
    assert RateLimitOptions().make() is None
    assert RateLimitOptions().rows == (("rate_limit", "OFF"),)


def test_limits_as_the_table_of_options_shows_them():
    options = RateLimitOptions("execution_count", ("R1:3", "R2:4:1"))

    assert options.limits == (ResourceLimit("R1", 3), ResourceLimit("R2", 4, 1))
    assert options.rows == (
        ("rate_limit", "EXEC_COUNT"),
        ("rate_limit_resource[0]", '{"name":"R1", "count":3 "device":-1}'),
        ("rate_limit_resource[1]", '{"name":"R2", "count":4 "device":1}'),
    )
    assert isinstance(options.make(), RateLimiter)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("R1", FORMAT + "R1"),
        ("R1:1:2:3", FORMAT + "R1:1:2:3"),
        ("R1:x", "Invalid option value. Got x"),
        ("R1:1:global", "Invalid option value. Got global"),
    ],
)
def test_malformed_resources(text, detail):
    with pytest.raises(OptionError) as raised:
        RateLimitOptions(rate_limit_resource=(text,))

    assert (raised.value.flag, raised.value.message) == ("rate-limit-resource", detail)


def test_unknown_modes():
    with pytest.raises(OptionError, match=r"^invalid argument for --rate-limit$"):
        RateLimitOptions("foo")
