"""Where things lie in a `ModelInferRequest` of the usual form: fields in the order of their numbers, tensors last."""

from dataclasses import dataclass
from typing import Final

from charonia_runtime.protocols.v2_proto.wire import skip

_MODEL_NAME: Final = 0x0A
_MODEL_VERSION: Final = 0x12
_ID: Final = 0x1A
_RAW_CONTENTS: Final = 0x3A
_ONE_BYTE: Final = 0x80
"""Lengths below it are one byte."""
_FIELDS_AT_MOST: Final = 256


@dataclass(slots=True)
class Layout:
    """Places are counted from `rest`, where the id ends."""

    model: bytes
    """Name and version of the model, as fields."""
    version_text: str
    rest: int
    head: bytes
    """From there to the first tensor's bytes."""
    tensors: list[tuple[int, int]]
    """Start and end of each tensor."""
    prefixes: list[tuple[int, int, bytes]]
    """Start, end and bytes of what stands before each tensor but the first."""


def read_front(front: bytes) -> tuple[int, int, int] | None:
    """
    Where the fields of the model end, where the text of the id starts, and where it ends.

    None for a message that begins with anything but the model's name, or with long texts.
    """
    size = len(front)
    if size < 2 or front[0] != _MODEL_NAME or front[1] >= _ONE_BYTE:
        return None
    at = 2 + front[1]
    if at + 1 < size and front[at] == _MODEL_VERSION:
        if front[at + 1] >= _ONE_BYTE:
            return None
        at += 2 + front[at + 1]
    if at + 1 >= size or front[at] != _ID:
        return (at, at, at) if at <= size else None
    start = at + 2
    end = start + front[at + 1]
    return (at, start, end) if end - start < _ONE_BYTE and end <= size else None


def find_layout(data: bytes | memoryview, front_bytes: int) -> Layout | None:
    """The layout of a message that protobuf has read; None for an unusual one or more than `front_bytes` of head."""
    found = read_front(bytes(data[:front_bytes]))
    if found is None:
        return None
    model_end, _, rest = found
    at, end, last = rest, len(data), _ID
    tensors: list[tuple[int, int]] = []
    prefixes: list[tuple[int, int, bytes]] = []
    head_end = 0
    for _ in range(_FIELDS_AT_MOST):
        if at >= end:
            break
        key = data[at]
        place = skip(data, at, end)
        if place is None or key <= _ID or key < last or (tensors and key != _RAW_CONTENTS):
            return None
        content, stop = place
        if key == _RAW_CONTENTS:
            if tensors:
                prefixes.append((at - rest, content - rest, bytes(data[at:content])))
            else:
                head_end = content
            tensors.append((content - rest, stop - rest))
        at, last = stop, key
    head_end = head_end or end
    if at < end or head_end > front_bytes:
        return None
    model = bytes(data[:model_end])
    return Layout(model, _version(model), rest, bytes(data[rest:head_end]), tensors, prefixes)


def _version(model: bytes) -> str:
    """The text of the model's version in its fields."""
    at = 2 + model[1]
    return model[at + 2 :].decode()
