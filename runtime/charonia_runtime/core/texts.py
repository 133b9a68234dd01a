"""Texts that came from models or file names, made fit for wires that carry UTF-8."""

import re
from typing import Final

_HALF: Final = re.compile("[\ud800-\udbff\udc00-\udc7f\udd00-\udfff]")
"""Half a surrogate pair that does not stand for a byte (`surrogateescape` uses the others)."""


def utf8_bytes(text: str) -> bytes:
    r"""
    Return a text in UTF-8, whatever is in it.

    Surrogate escapes become the bytes that they stand for. Other halves of surrogate pairs have no form in UTF-8 and
    are written as `\ud800`.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _HALF.sub(_escape, text).encode("utf-8", "surrogateescape")


def utf8_text(text: str) -> str:
    r"""Return a text that UTF-8, protobuf and gRPC accept: every half of a surrogate pair is written as `\ud800`."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _escape(half: re.Match[str]) -> str:
    return f"\\u{ord(half[0]):04x}"
