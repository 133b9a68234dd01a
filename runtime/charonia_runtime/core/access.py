"""Who may ask: access tokens, as `Authorization` carries them over any wire."""

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from charonia_runtime.core.errors import InvalidArgumentError

HEADER: Final = "authorization"
"""The header, or key of the metadata, that carries a token."""
OPEN_CATEGORY: Final = "health"
"""The category of endpoints (`core.restrictions.CATEGORIES`) that need no token: probes have none."""

_SCHEME: Final = b"bearer "
_WANTED: Final = "an access token is required: send 'Authorization: Bearer <token>', or the token alone"
_UNKNOWN: Final = "the access token is not one that this server accepts"


class AccessTokens:
    """
    The tokens that are valid now; they may be replaced at any time. Without any, nobody is let in.

    Only their digests are kept. How long a check takes tells nothing about them: all are compared, each in full.
    """

    __slots__ = ("_digests",)

    def __init__(self, tokens: Iterable[str] = ()) -> None:
        self.replace(tokens)

    def replace(self, tokens: Iterable[str]) -> None:
        """From now on exactly these are valid."""
        self._digests = tuple({sha256(token.encode()).digest() for token in tokens})

    def refusal(self, authorization: bytes | None) -> str:
        """Why a client that sent this `Authorization` (`<token>` or `Bearer <token>`) is refused; "" if it is not."""
        if not authorization:
            return _WANTED
        shown = authorization.strip()
        if shown[: len(_SCHEME)].lower() == _SCHEME:
            shown = shown[len(_SCHEME) :].lstrip()
        digest = sha256(shown).digest()
        known = False
        for valid in self._digests:
            known |= compare_digest(digest, valid)
        return "" if known else _UNKNOWN


def parse_tokens(text: str) -> tuple[str, ...]:
    """
    The tokens of a file: one a line; empty lines and lines that begin with `#` do not count.

    Raises InvalidArgumentError for a line that no header could carry, or if there is none; no token is repeated in it.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        token = line.strip()
        if not token or token.startswith("#"):
            continue
        if not all("!" <= character <= "~" for character in token):
            raise InvalidArgumentError(
                f"line {number} is no token: expected visible ASCII characters without blanks, one token a line"
            )
        found.append(token)
    if not found:
        raise InvalidArgumentError("it holds no token: expected one token a line")
    return tuple(found)
