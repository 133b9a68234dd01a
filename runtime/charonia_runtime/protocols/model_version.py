"""The version in a request's path or message: text ⇄ number, as lenient as Triton's C parser."""

import re

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import ANY_VERSION

_LEADING_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_INT64_MAX = 2**63 - 1


def parse_version(text: str) -> int:
    """
    The version that `text` names; `ANY_VERSION` for an empty one.

    Leading spaces, a sign and anything after the digits are accepted (`1x` is 1). Raises InvalidArgumentError.
    """
    if not text:
        return ANY_VERSION
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    match = _LEADING_INTEGER.match(text)
    # a hostile version of a million digits must not reach int(), which is quadratic
    version = int(match[1]) if match is not None and len(match[1].lstrip("+-0")) < 20 else None
    if version is None or not -_INT64_MAX <= version <= _INT64_MAX:
        raise InvalidArgumentError(
            f"failed to get model version from specified version string '{text}' (details: stol), version should be "
            "an integral value > 0"
        )
    if version < 0:
        raise InvalidArgumentError(
            f"invalid model version specified '{text}' , version should be an integral value > 0"
        )
    return version
