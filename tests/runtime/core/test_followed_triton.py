"""Which rules each release of Triton means."""

import pytest

from charonia_runtime.core.followed_triton import FollowedTriton, parse_followed_triton
from charonia_runtime.core.frontend import OptionError


@pytest.mark.parametrize(
    ("text", "version", "newest_rules"),
    [
        ("", "", True),
        ("2.51.0", "2.51.0", False),
        ("2.51", "2.51.0", False),
        ("2.40.1", "2.40.1", False),
        ("2.52.0", "2.52.0", True),
        ("2.73.0", "2.73.0", True),
        ("3.0", "3.0.0", True),
    ],
)
def test_the_release_decides_the_rules(text, version, newest_rules):
    assert parse_followed_triton(text) == FollowedTriton(version, newest_rules)


@pytest.mark.parametrize("text", ["2", "v2.51.0", "2.51.0-rc1", "2.51.0.1", "newest", " 2.51", "2.\u0665"])
def test_what_is_no_version_is_refused(text):
    with pytest.raises(OptionError, match="must be a version of Triton") as caught:
        parse_followed_triton(text)
    assert caught.value.flag == "server-version-compatibility"
