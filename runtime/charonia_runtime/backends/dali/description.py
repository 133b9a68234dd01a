"""
What a serialized pipeline says of itself, read from its bytes: DALI's Python package does not tell.

The bytes are a protobuf message. What is read of it, by field number:

    pipeline  1 threads, 2 batch size, 5 operators, 7 outputs
    operator  1 kind, 4 arguments, 5 name
    argument  1 name, 4 number
    output    1 name, 5 element type, 6 dimensions
"""

from collections.abc import Iterator
from dataclasses import dataclass

from charonia_runtime.backends.dali.library import DATATYPES
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError

_EXTERNAL_SOURCE = "ExternalSource"
_VIDEO = "inputs__Video"
_SIGN, _MODULUS = 1 << 63, 1 << 64
_Fields = Iterator[tuple[int, int | bytes]]


@dataclass(frozen=True, slots=True)
class PipelineTensor:
    """One input or output; type and number of dimensions of a sample, None where the pipeline leaves them open."""

    name: str
    datatype: DataType | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """Inputs in the order of their operators, outputs in the order of the pipeline's."""

    batch_size: int
    inputs: tuple[PipelineTensor, ...]
    outputs: tuple[PipelineTensor, ...]


def describe(serialized: bytes) -> Description:
    """Raises InvalidArgumentError for bytes that are no pipeline."""
    batch_size = 0
    inputs: list[PipelineTensor] = []
    outputs: list[PipelineTensor] = []
    try:
        for number, value in _fields(serialized):
            match number, value:
                case 2, int():
                    batch_size = value
                case 5, bytes():
                    inputs += _input(value)
                case 7, bytes():
                    outputs.append(_output(value))
                case _:
                    pass
    except (IndexError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("not a serialized DALI pipeline") from error
    if not outputs:
        raise InvalidArgumentError("a DALI pipeline without outputs")
    return Description(batch_size, tuple(inputs), tuple(outputs))


def _input(operator: bytes) -> list[PipelineTensor]:
    """The input that this operator is, if it is one."""
    kind = name = ""
    numbers: dict[str, int] = {}
    for field, value in _fields(operator):
        match field, value:
            case 1, bytes():
                kind = value.decode()
            case 4, bytes():
                numbers |= _argument(value)
            case 5, bytes():
                name = value.decode()
            case _:
                pass
    if kind.endswith(_VIDEO):
        return [PipelineTensor(name, DataType.UINT8, 1)]
    if kind != _EXTERNAL_SOURCE:
        return []
    return [PipelineTensor(name, DATATYPES.get(numbers.get("dtype", -1)), _known(numbers.get("ndim", -1)))]


def _argument(argument: bytes) -> dict[str, int]:
    """Its name and number; empty for arguments of other kinds."""
    fields = dict(_fields(argument))
    name, number = fields.get(1), fields.get(4)
    return {name.decode(): _signed(number)} if isinstance(name, bytes) and isinstance(number, int) else {}


def _output(output: bytes) -> PipelineTensor:
    fields = dict(_fields(output))
    name, datatype, rank = fields.get(1, b""), fields.get(5, -1), fields.get(6, -1)
    return PipelineTensor(
        name.decode() if isinstance(name, bytes) else "",
        DATATYPES.get(datatype) if isinstance(datatype, int) else None,
        _known(_signed(rank)) if isinstance(rank, int) else None,
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _signed(number: int) -> int:
    return number - _MODULUS if number & _SIGN else number


def _fields(message: bytes) -> _Fields:
    """Field numbers and values: numbers, and pieces of the message. Raises IndexError for what is cut short."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        match key & 7:
            case 0:
                value, at = _number(message, at)
                yield key >> 3, value
            case 2:
                size, at = _number(message, at)
                yield key >> 3, _piece(message, at, size)
                at += size
            case 1:
                yield key >> 3, _piece(message, at, 8)
                at += 8
            case 5:
                yield key >> 3, _piece(message, at, 4)
                at += 4
            case _:
                raise IndexError("no such kind of field")


def _piece(message: bytes, at: int, size: int) -> bytes:
    if at + size > len(message):
        raise IndexError("cut short")
    return message[at : at + size]


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
