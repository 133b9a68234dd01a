"""
JSON documents of the HTTP protocol, read as Triton's RapidJSON reads them.

`read` takes the fast parser for what both agree on and a careful reader for the rest: repeated keys (the first one
wins), NaN and Infinity, a byte order mark, bytes that are not UTF-8 (kept as surrogate escapes), any depth, and the
texts and byte offsets of syntax errors. The `as_…` functions check types with Triton's texts.
"""

import json
import re
from typing import Any, NoReturn

import orjson

from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.protocols.json_limits import check_size

VALUES_BEHIND = "The document root must not be followed by other values."
MEMBER_NOT_ENDED = "Missing a comma or '}' after an object member."
NO_NAME = "Missing a name for object member."
MAXIMUM_DEPTH = 260_000
"""Containers inside each other that the careful reader follows; what is deeper is an attack on the memory."""

_CAREFUL_BYTES = 64 * 1024
"""Up to this size the careful reader may take the time, a millisecond for each kilobyte at worst."""
_DEEP_BYTES = 1024 * 1024
"""Up to this size documents may be nested deeper than Python's own parser goes."""
_LARGE_TEXT_FAULTS = {
    "Expecting property name enclosed in double quotes": NO_NAME,
    "Illegal trailing comma before end of object": NO_NAME,
    "Expecting ':' delimiter": "Missing a colon after a name of object member.",
    "Expecting ',' delimiter": "Missing a comma or ']' after an array element.",
    "Extra data": VALUES_BEHIND,
    "Unterminated string starting at": "Missing a closing quotation mark in string.",
    "Invalid control character at": "Invalid encoding in string.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Invalid \\uXXXX escape": "Incorrect hex digit after \\u escape in string.",
}
"""What Python's parser finds wrong with texts that are too large for exact words."""
_LONE_SURROGATE = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\r\n]*+")
_ESCAPED = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_STRING_START = re.compile(rb'"(?:[^"\\\x00-\x1f]++|' + _ESCAPED + rb")*+")
_STRING = re.compile(rb'"((?:[^"\\\x00-\x1f]++|' + _ESCAPED + rb')*+)"')
_ESCAPE = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL
)
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_NUMBERS = re.compile(
    rb"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?[ \t\r\n]*+,[ \t\r\n]*+){4,}+"
)  # fmt: skip
_NOT_FINITE = re.compile(rb"(-?)(?:(NaN)|Inf(?:inity)?)")
_LITERALS: dict[bytes, tuple[bytes, Any]] = {b"n": (b"null", None), b"t": (b"true", True), b"f": (b"false", False)}
_MINIMUM_INT64, _MAXIMUM_UINT64 = -(2**63), 2**64 - 1


class Members(dict[str, Any]):
    """An object with repeated keys: look-up gives the first of them, `pairs` has them all in order."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(reversed(pairs))
        self.pairs = pairs


def read(text: bytes) -> Any:
    """
    The document as dictionaries, lists, strings, numbers, booleans and None.

    Integers outside int64 and uint64 are floats. Raises InternalError for malformed text, and InvalidArgumentError for
    a document that is too large (`json_limits`).
    """
    check_size(text)
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _read_refused(text)
    if text.count(b":") != member_count(document) and _has_repeated_keys(text):
        return _read_refused(text)
    return document


def pairs_of(document: Any) -> list[tuple[str, Any]]:
    """All members of an object in order, repeated ones too. Raises InternalError for anything else."""
    if isinstance(document, Members):
        return document.pairs
    if isinstance(document, dict):
        return list(document.items())
    raise InternalError("attempt to get members for non-object")


def member(document: Any, name: str) -> Any:
    """The member `name`. Raises InternalError when there is none, or `document` is no object."""
    if isinstance(document, dict) and name in document:
        return document[name]
    raise InternalError(f"attempt to access non-existing object member '{name}'")


def as_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise InternalError("attempt to access JSON non-string as string")


def as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise InternalError("attempt to access JSON non-boolean as boolean")


def as_unsigned(value: Any) -> int:
    if type(value) is int and value >= 0:
        return value
    raise InternalError("attempt to access JSON non-unsigned-integer as unsigned-integer")


def as_array(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    raise InternalError("attempt to access JSON non-array as array")


def as_object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise InternalError("attempt to access JSON non-object as object")


def member_count(document: Any) -> int:
    """Members of all objects; objects in a list that begins with something else may be missed."""
    count, pending = 0, [document]
    while pending:
        value = pending.pop()
        if type(value) is dict:
            count += len(value)
            pending.extend(value.values())
        elif type(value) is list and value and type(value[0]) in {dict, list}:
            pending.extend(value)
    return count


def _has_repeated_keys(text: bytes) -> bool:
    """Whether an object of this well-formed text has a key twice; True as well when that cannot be told."""
    repeated = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len({key for key, _ in pairs}) != len(pairs)

    try:
        json.loads(text, object_pairs_hook=look)
    except (RecursionError, ValueError):
        return True
    return repeated


def _read_refused(text: bytes) -> Any:
    """Read what the fast parser refused or would read differently; the careful reader is no match for large texts."""
    if len(text) <= _CAREFUL_BYTES:
        return _read_carefully(text)
    surrogate = _LONE_SURROGATE.search(text)
    if surrogate is not None:
        _refuse("The surrogate pair in string is invalid.", surrogate.start())
    content = text.decode("utf-8-sig", "surrogateescape")
    try:
        return json.loads(content, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        before = content[: error.pos].encode("utf-8", "surrogateescape")
        offset = len(before) + (len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0)
        _refuse(_LARGE_TEXT_FAULTS.get(error.msg, "Invalid value."), offset)
    except (RecursionError, ValueError) as error:
        if len(text) <= _DEEP_BYTES:
            return _read_carefully(text)
        if isinstance(error, ValueError):
            raise InvalidArgumentError("a number in the request JSON has too many digits") from None
        raise InvalidArgumentError("JSON nesting depth exceeds maximum allowed limit") from None


def _read_carefully(text: bytes) -> Any:
    start = len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0
    at = _skip_space(text, start)
    if _at_end(text, at):
        _refuse("The document is empty.", at)
    value, at = _read_value(text, at)
    at = _skip_space(text, at)
    if not _at_end(text, at):
        _refuse(VALUES_BEHIND, at)
    return value


def _read_value(text: bytes, at: int) -> tuple[Any, int]:
    """The value at `at`, and where it ends. Iterative: nesting costs memory, never the stack."""
    unfinished: list[tuple[list[Any], str | None]] = []
    while True:
        char = text[at : at + 1]
        value: Any
        if char == b"{":
            at = _skip_space(text, at + 1)
            if text[at : at + 1] != b"}":
                name, at = _read_name(text, at)
                unfinished.append(([], name))
                continue
            value, at = {}, at + 1
        elif char == b"[":
            at = _skip_space(text, at + 1)
            if text[at : at + 1] != b"]":
                numbers, at = _read_numbers(text, at)
                unfinished.append((numbers, None))
                if len(unfinished) > MAXIMUM_DEPTH:
                    raise InvalidArgumentError(f"JSON nesting depth exceeds maximum allowed limit ({MAXIMUM_DEPTH})")
                continue
            value, at = [], at + 1
        else:
            value, at = _read_scalar(text, at)
        finished, value, at = _close(text, at, value, unfinished)
        if finished:
            return value, at


def _close(
    text: bytes, at: int, value: Any, unfinished: list[tuple[list[Any], str | None]]
) -> tuple[bool, Any, int]:  # fmt: skip
    """Put a finished value into its container, and that into its own as far as they end here as well."""
    while unfinished:
        at = _skip_space(text, at)
        items, name = unfinished[-1]
        items.append(value if name is None else (name, value))
        char = text[at : at + 1]
        if char == b",":
            at = _skip_space(text, at + 1)
            if name is None:
                numbers, at = _read_numbers(text, at)
                items.extend(numbers)
            else:
                name, at = _read_name(text, at)
                unfinished[-1] = (items, name)
            return False, None, at
        if name is None and char != b"]":
            _refuse("Missing a comma or ']' after an array element.", at)
        if name is not None and char != b"}":
            _refuse(MEMBER_NOT_ENDED, at)
        at += 1
        value = items if name is None else _object(items)
        unfinished.pop()
    return True, value, at


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else Members(pairs)


def _read_name(text: bytes, at: int) -> tuple[str, int]:
    if text[at : at + 1] != b'"':
        _refuse(NO_NAME, at)
    name, at = _read_string(text, at)
    at = _skip_space(text, at)
    if text[at : at + 1] != b":":
        _refuse("Missing a colon after a name of object member.", at)
    return name, _skip_space(text, at + 1)


def _read_numbers(text: bytes, at: int) -> tuple[list[Any], int]:
    """As many array elements as are plain numbers with a comma behind, at the fast parser's speed; often none."""
    match = _NUMBERS.match(text, at)
    if match is None:
        return [], at
    try:
        return orjson.loads(b"[" + match[0].rstrip(b", \t\r\n") + b"]"), match.end()
    except orjson.JSONDecodeError:
        return [], at


def _read_scalar(text: bytes, at: int) -> tuple[Any, int]:
    char = text[at : at + 1]
    if char == b'"':
        return _read_string(text, at)
    if char in _LITERALS:
        word, value = _LITERALS[char]
        if text.startswith(word, at):
            return value, at + len(word)
        same = next(index for index, byte in enumerate(word) if text[at + index : at + index + 1] != bytes([byte]))
        _refuse("Invalid value.", at + same)
    return _read_number(text, at)


def _read_number(text: bytes, at: int) -> tuple[int | float, int]:
    match = _NUMBER.match(text, at)
    if match is None:
        special = _NOT_FINITE.match(text, at)
        if special is None:
            _refuse("Invalid value.", at + (text[at : at + 1] == b"-"))
        return float(b"nan" if special[2] else special[1] + b"inf"), special.end()
    end = match.end()
    following = text[end : end + 1]
    if following == b"." and match[1] is None and match[2] is None:
        _refuse("Miss fraction part in number.", end + 1)
    if following in {b"e", b"E"} and match[2] is None:
        _refuse("Miss exponent in number.", end + 1 + (text[end + 1 : end + 2] in {b"+", b"-"}))
    token = match[0]
    if match[1] is None and match[2] is None and len(token) <= len("-18446744073709551615"):
        number = int(token)
        if _MINIMUM_INT64 <= number <= _MAXIMUM_UINT64:
            return number, end
    real = float(token)
    if real in {float("inf"), float("-inf")}:
        _refuse("Number too big to be stored in double.", at)
    return real, end


def _read_string(text: bytes, at: int) -> tuple[str, int]:
    match = _STRING.match(text, at)
    if match is None:
        _refuse_string(text, at)
    raw: bytes = match[1]
    if b"\\" in raw:
        raw = _unescape(raw, at + 1)
    return raw.decode("utf-8", "surrogateescape"), match.end()


def _unescape(raw: bytes, start: int) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        high, low, single, char = match.groups()
        if high:
            code = 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00
            return chr(code).encode()
        if single:
            code = int(single, 16)
            if 0xD800 <= code <= 0xDFFF:
                _refuse("The surrogate pair in string is invalid.", start + match.start())
            return chr(code).encode()
        return _ESCAPES.get(char, char)

    return _ESCAPE.sub(replace, raw)


def _refuse_string(text: bytes, at: int) -> NoReturn:
    """Say what is wrong with a string that is not well-formed."""
    match = _STRING_START.match(text, at)
    end = at + 1 if match is None else match.end()
    _unescape(text[at + 1 : end], at + 1)
    if _at_end(text, end):
        _refuse("Missing a closing quotation mark in string.", end)
    if text[end : end + 1] != b"\\":
        _refuse("Invalid encoding in string.", end)
    if text[end + 1 : end + 2] == b"u":
        _refuse("Incorrect hex digit after \\u escape in string.", end)
    _refuse("Invalid escape character in string.", end)


def _skip_space(text: bytes, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _at_end(text: bytes, at: int) -> bool:
    """Whether the text ends here; a zero byte ends it too."""
    return at >= len(text) or text[at] == 0


def fault(reason: str, offset: int) -> InternalError:
    """Return the error of a text that is malformed at `offset`."""
    return InternalError(f"failed to parse the request JSON buffer: {reason} at {offset}")


def _refuse(reason: str, offset: int) -> NoReturn:
    raise fault(reason, offset)
