"""Texts that came from clients, models or file names, made fit for wires that carry UTF-8 and for lines of the log."""

import re
from typing import Final
from urllib.parse import quote_from_bytes

_HALF: Final = re.compile("[\ud800-\udbff\udc00-\udc7f\udd00-\udfff]")
"""Half a surrogate pair that does not stand for a byte (`surrogateescape` uses the others)."""
_SENTENCE: Final = re.compile(r".*")
_WORD: Final = re.compile(r"""[^\s"'\\]*""")


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


def one_line(text: str, most: int) -> str:
    """Return the first `most` characters of a text; what is not printable is percent-encoded, such as ends of lines."""
    return _percent_encoded(text, most, _SENTENCE)


def one_word(text: str, most: int) -> str:
    """Return the first `most` characters of a text; blanks, quotes and what is not printable are percent-encoded."""
    return _percent_encoded(text, most, _WORD)


def _percent_encoded(text: str, most: int, kept: re.Pattern[str]) -> str:
    shown = text if len(text) <= most else f"{text[:most]}…"
    if kept.fullmatch(shown) and shown.isprintable():
        return shown
    return "".join(
        character
        if kept.fullmatch(character) and character.isprintable()
        else quote_from_bytes(utf8_bytes(character), safe="")
        for character in shown
    )


def _escape(half: re.Match[str]) -> str:
    return f"\\u{ord(half[0]):04x}"
