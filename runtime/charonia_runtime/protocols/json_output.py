"""
JSON text for answers, spelled as Triton's RapidJSON writer spells it.

Compact; text raw in UTF-8, with bytes that are not UTF-8 passed through; floats always with a fraction or an exponent;
NaN and Infinity bare.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from charonia_runtime.core.texts import utf8_bytes

_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')
_ESCAPES = {
    byte: f"\\u{byte:04X}".encode() for byte in range(32)
} | {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}  # fmt: skip
_OTHER_SPELLING = re.compile(rb"e(?:-6(?![0-9])|\+[0-9]+)")
"""Exponents that the fast formatter writes and RapidJSON does not, or not so. One fixed letter first: a fast search."""


def render(value: Any) -> bytes:
    """Any document: mappings, sequences, text (str or bytes), numbers, booleans and None."""
    if value is None:
        return b"null"
    if isinstance(value, str | bytes):
        return render_text(value)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return render_floats(np.array([value]))[1:-1]
    if isinstance(value, Mapping):
        return b"{%b}" % b",".join(b"%b:%b" % (render_text(key), render(entry)) for key, entry in value.items())
    if isinstance(value, Sequence):
        return b"[%b]" % b",".join(map(render, value))
    raise TypeError(f"{type(value).__name__} has no place in a JSON document")


def render_text(text: str | bytes) -> bytes:
    """A string in quotation marks. Surrogate escapes become the bytes that they stand for."""
    raw = utf8_bytes(text) if isinstance(text, str) else text
    if _ESCAPED.search(raw) is not None:
        raw = _ESCAPED.sub(_escape, raw)
    return b'"%b"' % raw


def render_texts(elements: Sequence[bytes]) -> bytes:
    """An array of strings."""
    return b"[%b]" % b",".join(map(render_text, elements))


def render_integers(array: npt.NDArray[Any]) -> bytes:
    """A flat array of integers or booleans."""
    return orjson.dumps(_plain(array), option=orjson.OPT_SERIALIZE_NUMPY)


def render_floats(array: npt.NDArray[Any]) -> bytes:
    """
    A flat array of floats; FP32 is widened to double first, as Triton does.

    The shortest digits that read back as the same double; where several are that short, the closest (RapidJSON may
    choose another last digit).
    """
    wide = _plain(array.astype(np.float64))
    text = orjson.dumps(wide, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"e" in text:
        text = _respell(text)
    if b"n" in text:  # of null: one letter is found at once, a word in milliseconds
        special = iter([_spell_special(value) for value in wide[~np.isfinite(wide)].tolist()])
        text = re.sub(rb"null", lambda _: next(special), text)
    return text


def _plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as the fast formatter wants it: aligned, contiguous."""
    return np.require(array, requirements=["C", "A"])


def _escape(match: re.Match[bytes]) -> bytes:
    return _ESCAPES[match[0][0]]


def _spell_special(value: float) -> bytes:
    if value != value:  # noqa: PLR0124 - only NaN differs from itself
        return b"NaN"
    return b"Infinity" if value > 0 else b"-Infinity"


def _respell(text: bytes) -> bytes:
    """Respell the numbers of an array that have an exponent which is plain, or written otherwise, in RapidJSON."""
    pieces: list[bytes] = []
    done = 0
    for match in _OTHER_SPELLING.finditer(text):
        start = max(text.rfind(b",", done, match.start()), text.rfind(b"[", done, match.start()), done - 1) + 1
        pieces += (text[done:start], _respell_number(text[start : match.start()], int(match[0][1:])))
        done = match.end()
    if not pieces:
        return text
    pieces.append(text[done:])
    return b"".join(pieces)


def _respell_number(mantissa: bytes, exponent: int) -> bytes:
    """Plain decimals from 1e-6 up to below 1e21, beyond that an exponent without a plus sign."""
    if exponent > 20:
        return b"%be%d" % (mantissa, exponent)
    sign, digits = (b"-", mantissa[1:]) if mantissa.startswith(b"-") else (b"", mantissa)
    whole, _, fraction = digits.partition(b".")
    if exponent < 0:
        return b"%b0.%b%b%b" % (sign, b"0" * (-exponent - 1), whole, fraction)
    moved = (whole + fraction).ljust(exponent + 1, b"0")
    return b"%b%b.%b" % (sign, moved[: exponent + 1], moved[exponent + 1 :] or b"0")
