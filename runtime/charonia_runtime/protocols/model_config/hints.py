"""Likely corrections of configurations that cannot be read: the field, the value or the bracket that was meant."""

import difflib
import re
from collections.abc import Iterable

from google.protobuf.descriptor import Descriptor, EnumDescriptor
from tritonclient.grpc import model_config_pb2

_UNKNOWN_FIELD = re.compile(r'Message type "inference\.(?P<message>[\w.]+)" has no field named "(?P<name>[^"]*)"')
_UNKNOWN_VALUE = re.compile(
    r'Enum type "inference\.(?P<enum>[\w.]+)" has no value named (?P<name>\w+)'
    r"|Invalid enum value (?P<json_name>\w+) for enum type inference\.(?P<json_enum>[\w.]+?)(?: |$)"
)
_UNQUOTED = re.compile(r"Expected string but found: '(?P<word>[^'\"]+)'")
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])*\'?|#[^\n]*|[\[\]{}<>]')  # unfinished strings too
_PAIRS = {"]": "[", "}": "{", ">": "<"}
_OTHER_NAMES_OF_TYPES = {
    "FLOAT": "FP32", "FLOAT16": "FP16", "FLOAT32": "FP32", "FLOAT64": "FP64", "HALF": "FP16", "DOUBLE": "FP64",
    "BFLOAT16": "BF16", "INT": "INT32", "LONG": "INT64", "BYTES": "STRING", "STR": "STRING", "OBJECT": "STRING",
    "BOOLEAN": "BOOL",
}  # fmt: skip
_LONGEST_LIST = 20
_LONGEST_CAUSE = 500
_CLOSE = 0.6


def hint_of_names(cause: str) -> str:
    """What was meant by the field or the value that `cause` does not know, with a space before; empty where unknown."""
    field = _UNKNOWN_FIELD.search(cause)
    if field is not None:
        message = _message(field["message"])
        return "" if message is None else _nearest(field["name"], message.fields_by_name)
    value = _UNKNOWN_VALUE.search(cause)
    if value is not None:
        enum = _enum(value["enum"] or value["json_enum"])
        return "" if enum is None else _value_hint(value["name"] or value["json_name"], enum.values_by_name)
    return ""


def hint_of_text(cause: str, text: str, line: int, column: int) -> str:
    """The same, or what else is likely to be wrong at a place of a text; `line` and `column` count from 1."""
    cause = cause[:_LONGEST_CAUSE]  # it may quote a file that is no configuration
    named = hint_of_names(cause)
    if named:
        return named
    unquoted = _UNQUOTED.search(cause)
    if unquoted is not None:
        return f' Write text in quotes: "{unquoted["word"]}"'
    if text.lstrip().startswith("{"):
        return ' This looks like JSON; a config.pbtxt is lines such as: name: "m"'
    lines = text.split("\n")
    before = "\n".join([*lines[: line - 1], lines[line - 1][: column - 1]]).rstrip() if line <= len(lines) else text
    rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    if before.endswith(",") and rest.startswith(("]", "}")):
        return f" Remove the comma before '{rest[0]}'"
    if re.search(r"\bvalue\s*:$", before) and rest.startswith(('"', "'")):
        return ' Write a parameter as: { key: "…" value: { string_value: "…" } }'
    return _unclosed(text)


def _unclosed(text: str) -> str:
    """Where the bracket stands whose other half is missing."""
    opened: list[tuple[str, int]] = []
    for token in _TOKEN.finditer(text):
        character = token.group()
        if character in _PAIRS.values():
            opened.append((character, token.start()))
        elif character in _PAIRS:
            if not opened:
                return f" The '{character}' at {_place(text, token.start())} closes nothing"
            bracket, at = opened.pop()
            if bracket != _PAIRS[character]:
                return f" The '{bracket}' at {_place(text, at)} is not closed before it"
    return f" The '{opened[-1][0]}' at {_place(text, opened[-1][1])} is not closed" if opened else ""


def _place(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset)
    return f"{line + 1}:{offset - (text.rfind(chr(10), 0, offset) + 1) + 1}"


def _message(name: str) -> Descriptor | None:
    """The message `name`, as `Outer.Inner`."""
    first, *inner = name.split(".")
    found: Descriptor | None = model_config_pb2.DESCRIPTOR.message_types_by_name.get(first)
    for part in inner:
        found = None if found is None else found.nested_types_by_name.get(part)
    return found


def _enum(name: str) -> EnumDescriptor | None:
    outer, _, last = name.rpartition(".")
    if not outer:
        top: EnumDescriptor | None = model_config_pb2.DESCRIPTOR.enum_types_by_name.get(last)
        return top
    message = _message(outer)
    return None if message is None else message.enum_types_by_name.get(last)


def _value_hint(name: str, known: Iterable[str]) -> str:
    names = list(known)
    bare = name.upper().removeprefix("TYPE_")
    meant = _OTHER_NAMES_OF_TYPES.get(bare, bare)
    for one in names:
        if one == name.upper() or one.endswith(f"_{meant}"):
            return f" Did you mean {one}?"
    return _nearest(name.upper(), names) or (f" Accepted are {', '.join(names)}" if len(names) <= _LONGEST_LIST else "")


def _nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=_CLOSE)
    return f' Did you mean "{found[0]}"?' if found else ""
