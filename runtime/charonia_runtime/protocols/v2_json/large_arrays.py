"""
Long `data` arrays of large requests: cut out of the text, and read in pieces when the data type is known.

No object is made for each number, memory holds one piece and the tensor, and no call takes longer than some
milliseconds: a thread that reads keeps the interpreter from the event loop no longer. What is left of the text is a
small document, and its limits are those of `json_limits`.
"""

import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.errors import InternalError
from charonia_runtime.protocols import json_text
from charonia_runtime.protocols.json_limits import MAXIMUM_ENTRIES, too_large

FROM_BYTES: Final = 16 * 1024
"""Below, a reader that makes objects is as quick."""
MAXIMUM_DEPTH: Final = 100
"""Arrays inside each other in `data`."""
_LONG_BYTES: Final = 1024
"""Arrays of fewer bytes stay in the document."""
_LARGE_BYTES: Final = 512 * 1024
"""In texts of fewer bytes arrays of strings stay, too."""
_KEY: Final = b'"data"'
_BEFORE_ARRAY: Final = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+(?=\[)")
_TOKENS: Final = re.compile(
    rb'(?:[\[\],0-9a-zA-Z+\-. \t\r\n]{1,64}+|"(?:[^"\\\x00-\x1f]++|\\.)*+"(?![ \t\r\n]*+:)){0,4096}+', re.DOTALL
)
"""What may stand in an array of any scalars, 256 KB at most. A string before a colon is the key behind it."""
_TO_COMMA: Final = re.compile(rb'[^,"\[\]{}:]*+(?:\][\] \t\r\n]*+)?,')
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SPACE: Final = b" \t\r\n"
_PIECE_BYTES: Final = 256 * 1024
_ELEMENT_BYTES: Final = 1024 * 1024
"""An element of more bytes cannot be cut from the next: looking for its end again and again would take seconds."""
_SEAM_BYTES: Final = 64
_FEW: Final = 8
_MARK: Final = secrets.token_hex(16)
"""What stands for an array in the text of the rest. No client can write it: it is in no answer."""
_FAULT: Final = re.compile(r"(failed to parse the request JSON buffer: .* at )([0-9]+)", re.DOTALL)
_CODES: Final = {"d": "d", "q": "i", "Q": "u"}
"""Typecodes of numbers as Python's arrays name them, and as the quick parser does."""


class _Kept(threading.local):
    """What a thread keeps."""

    parser: Any = None


_kept: Final = _Kept()


@dataclass(frozen=True, slots=True)
class _Piece:
    """Elements of an array, from `start` to `end` in the text, with the number of arrays open before and behind."""

    start: int
    end: int
    depth_before: int
    depth_behind: int


class LargeArray:
    """An array of scalars, or of arrays of them, that is not read yet. Mistakes in it are raised while it is read."""

    __slots__ = ("_is_read", "_pieces", "_text", "end", "start")

    def __init__(self, text: bytes, pieces: list[_Piece]) -> None:
        self._text = text
        self._pieces = pieces
        self.start = pieces[0].start
        self.end = pieces[-1].end
        self._is_read = False

    def numbers(self, typecode: str) -> Iterator[npt.NDArray[Any] | list[Any]]:
        """
        Yield the elements in row-major order, some at a time: as arrays of `d`, `q` or `Q`.

        Where one of them does not fit, some come as a list of values, which may be lists. Raises InternalError for
        malformed text.
        """
        for piece in self._pieces:
            text = self._framed(piece)
            try:
                # Its lists are never asked for: they have room for 0xFFFFFF elements, and more are written behind it.
                buffer = _parser().parse(text).as_buffer(of_type=_CODES[typecode])
            except (TypeError, ValueError, RuntimeError, AttributeError):
                _kept.parser = None  # what it made may still hold it
                yield self._read(piece, text)
            else:
                yield np.frombuffer(buffer, typecode)
        self._is_read = True

    def values(self) -> Iterator[list[Any]]:
        """Yield the elements in row-major order, some at a time. Raises InternalError for malformed text."""
        for piece in self._pieces:
            yield self._read(piece, self._framed(piece))
        self._is_read = True

    def check(self) -> None:
        """Raise InternalError for malformed text, if the array was not read to its end."""
        if not self._is_read:
            for _ in self.numbers("d"):
                pass

    def _framed(self, piece: _Piece) -> bytes:
        """Return the piece as an array of its own."""
        text = self._text[piece.start : piece.end]
        if not piece.depth_before and not piece.depth_behind:
            return text
        return b"".join((b"[" * piece.depth_before, text, b"]" * piece.depth_behind))

    def _read(self, piece: _Piece, text: bytes) -> list[Any]:
        try:
            values: list[Any] = json_text.read(text)
        except InternalError as error:
            raise self._told_in_place(_moved(error, piece.start - piece.depth_before)) from None
        return values

    def _told_in_place(self, error: InternalError) -> InternalError:
        """An array that ends too early is followed by what would be a member of its object."""
        found = _FAULT.fullmatch(error.message)
        if found is None or json_text.VALUES_BEHIND not in found[1]:
            return error
        at = int(found[2])
        if self._text[at] != 0x2C:
            return json_text.fault(json_text.MEMBER_NOT_ENDED, at)
        behind = self._text[at + 1 :]
        return json_text.fault(json_text.NO_NAME, at + 1 + len(behind) - len(behind.lstrip(_SPACE)))


def read_large(text: bytes) -> tuple[Any, list[LargeArray]]:
    """
    Return what `json_text.read` makes of the text, but for long `data` arrays, and these arrays.

    The caller has each of them checked. Raises InternalError for malformed text, InvalidArgumentError for too much.
    """
    arrays = list(_find_arrays(text))
    if not arrays:
        return json_text.read(text), arrays
    marked = {f"{_MARK}-{index}": array for index, array in enumerate(arrays)}
    parts: list[bytes] = []
    at = 0
    for name, array in marked.items():
        parts += (text[at : array.start], f'"{name}"'.encode())
        at = array.end
    parts.append(text[at:])
    try:
        document = json_text.read(b"".join(parts))
    except InternalError as error:
        raise _moved_back(error, parts, arrays) from None
    _put(document, marked)
    return document, arrays


def _parser() -> Any:
    """Return this thread's parser, which keeps some times the memory of the largest piece that it has read."""
    if _kept.parser is None:
        import simdjson  # a large library, and most servers never see a large text

        _kept.parser = simdjson.Parser()
    return _kept.parser


def _find_arrays(text: bytes) -> Iterator[LargeArray]:
    """
    Yield the arrays behind keys called `data`.

    In a well-formed text the key and its colon never stand in a string, where its first quotation mark has a backslash
    before it. A malformed text stays malformed without the array.
    """
    at = seen = 0
    while (at := text.find(_KEY, at)) >= 0:
        seen += 1
        if seen > MAXIMUM_ENTRIES:
            raise too_large()
        is_key = at == 0 or text[at - 1] != 0x5C
        at += len(_KEY)
        before = _BEFORE_ARRAY.match(text, at) if is_key else None
        array = None if before is None else _find_array(text, before.end())
        if array is not None:
            yield array
            at = array.end


def _find_array(text: bytes, start: int) -> LargeArray | None:
    """Return the array that begins at `start`; None for a short one, and for what only a parser understands."""
    pieces: list[_Piece] = []
    begin = at = start
    depth = 0
    plain_end = _plain_end(text, start)
    if len(text) < _LARGE_BYTES and text[plain_end : plain_end + 1] == b'"' and _opened(text[start:plain_end]) > 0:
        return None
    while (stop := _stop(text, at, plain_end)) > at:
        behind = depth + _opened(text[begin:stop])
        if behind > 0 and text[stop - 1] != 0x2C:
            stop = _to_comma(text, begin, stop)
            behind = depth + _opened(text[begin:stop])
        if behind <= 0:
            end = begin + len(text[begin:stop].rstrip(_SPACE).removesuffix(b",").rstrip(_SPACE))
            if behind < 0 or text[end - 1] != 0x5D or end - start < _LONG_BYTES:
                return None
            return LargeArray(text, [*pieces, _Piece(begin, end, depth, 0)])
        if text[stop - 1] == 0x2C:
            if behind > MAXIMUM_DEPTH or not _is_seam(text, stop - 1):
                return None
            pieces.append(_Piece(begin, stop - 1, depth, behind))
            begin, depth = stop, behind
        elif stop - begin > _ELEMENT_BYTES:
            return None
        at = stop
    return None


def _to_comma(text: bytes, begin: int, stop: int) -> int:
    """Return the end of a piece behind the next comma, or else behind the last one that is in no string."""
    behind = _end(_TO_COMMA, text, stop)
    if behind > stop:
        return behind
    comma = text.rfind(b",", max(begin, text.rfind(b'"', begin, stop)), stop)
    return comma + 1 if comma >= 0 else stop


def _plain_end(text: bytes, start: int) -> int:
    """Return where the first string or end of an object stands: an array of numbers ends before, or has none."""
    quote = text.find(b'"', start)
    brace = text.find(b"}", start, quote if quote >= 0 else len(text))
    return max(brace if brace >= 0 else quote, start)


def _stop(text: bytes, at: int, plain_end: int) -> int:
    """Return where the piece that begins at `at` may end at the latest."""
    if at >= plain_end:
        return _end(_TOKENS, text, at)
    if plain_end - at <= _PIECE_BYTES:
        return plain_end
    comma = text.rfind(b",", at, at + _PIECE_BYTES)
    return comma + 1 if comma >= 0 else _end(_TOKENS, text, at)


def _is_seam(text: bytes, comma: int) -> bool:
    """Whether the elements on both sides of a comma may be read apart: neither is missing."""
    before = text[max(comma - _SEAM_BYTES, 0) : comma].rstrip(_SPACE)
    behind = text[comma + 1 : comma + _SEAM_BYTES].lstrip(_SPACE)
    return before[-1:] not in {b"", b"[", b","} and behind[:1] not in {b"", b"]", b","}


def _opened(text: bytes) -> int:
    """Return how many more arrays are opened than closed."""
    if b'"' in text:
        text = _STRING.sub(b"", text)
    return _count(text, b"[") - _count(text, b"]")


def _count(text: bytes, bracket: bytes) -> int:
    """Count by searching while there are few, as in flat arrays: that is ten times as quick."""
    at = -1
    for found in range(_FEW):
        at = text.find(bracket, at + 1)
        if at < 0:
            return found
    return text.count(bracket)


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _put(document: Any, marked: dict[str, LargeArray]) -> None:
    """Replace the marks in a document by what they stand for."""
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, json_text.Members):
            value.pairs = [(key, _unmarked(entry, marked)) for key, entry in value.pairs]
        if isinstance(value, dict):
            for key, entry in value.items():
                value[key] = _unmarked(entry, marked)
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


def _unmarked(value: Any, marked: dict[str, LargeArray]) -> Any:
    return marked.get(value, value) if type(value) is str else value


def _moved(error: InternalError, distance: int) -> InternalError:
    """Return the error of a part of a text as one of the whole."""
    found = _FAULT.fullmatch(error.message)
    return error if found is None else InternalError(f"{found[1]}{int(found[2]) + distance}")


def _moved_back(error: InternalError, parts: list[bytes], arrays: list[LargeArray]) -> InternalError:
    """Return the error of a text with marks as one of the text with arrays. Raises that of an array before it."""
    found = _FAULT.fullmatch(error.message)
    if found is None:
        return error
    offset, at, distance = int(found[2]), 0, 0
    for index, array in enumerate(arrays):
        before, mark = parts[2 * index : 2 * index + 2]
        at += len(before) + len(mark)
        if at <= offset:
            array.check()
            distance += array.end - array.start - len(mark)
    return _moved(error, distance)
