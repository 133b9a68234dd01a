"""Model versions as clients write them: text in paths and messages."""

import re

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import ANY_VERSION

_LEADING_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]+)")
_MAXIMUM = 2**63 - 1


def parse_version(text: str) -> int:
    """
    The version that `text` names; no text is `ANY_VERSION`. What follows the digits is ignored, as Triton does.

    Raises InvalidArgumentError when it does not begin with a number of at most 63 bits, or is negative.
    """
    if not text:
        return ANY_VERSION
    match = _LEADING_INTEGER.match(text)
    if match is None or len(match[2]) > len(str(_MAXIMUM)) or int(match[2]) > _MAXIMUM:
        raise InvalidArgumentError(
            f"failed to get model version from specified version string '{text}' (details: stol), version should be "
            "an integral value > 0"
        )
    version = int(match[2])
    if match[1] == "-" and version:
        raise InvalidArgumentError(
            f"invalid model version specified '{text}' , version should be an integral value > 0"
        )
    return version
