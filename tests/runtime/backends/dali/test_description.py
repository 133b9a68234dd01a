"""What is read out of a serialized pipeline; the bytes are made here, as DALI makes them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.backends.dali.description import Description, PipelineTensor, describe
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError

UNKNOWN = (1 << 64) - 1


def number(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*pieces, value])


def field(index: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return number(index << 3) + number(value)
    raw = value.encode() if isinstance(value, str) else value
    return number(index << 3 | 2) + number(len(raw)) + raw


def operator(kind: str, name: str, **numbers: int) -> bytes:
    text = field(4, field(1, "device") + field(2, "string") + field(5, "cpu"))
    arguments = [field(4, field(1, key) + field(2, "int64") + field(4, value)) for key, value in numbers.items()]
    return field(5, field(1, kind) + field(3, field(1, name)) + text + b"".join(arguments) + field(5, name))


def output(name: str, datatype: int = UNKNOWN, rank: int = UNKNOWN) -> bytes:
    return field(7, field(1, name) + field(2, "cpu") + field(5, datatype) + field(6, rank))


WHOLE = b"".join([
    field(1, 3), field(2, 16),
    operator("ExternalSource", "PICTURE", dtype=0, ndim=1),
    operator("decoders__Image", "decoded", dtype=9),
    operator("ExternalSource", "ANYTHING"),
    operator("experimental__inputs__Video", "VIDEO", dtype=9),
    output("decoded", 9, 3), output("ANYTHING"), field(8, UNKNOWN), number(9 << 3 | 1) + bytes(8),
    number(10 << 3 | 5) + bytes(4),
])  # fmt: skip


def test_inputs_and_outputs() -> None:
    assert describe(WHOLE) == Description(
        16,
        (
            PipelineTensor("PICTURE", DataType.UINT8, 1),
            PipelineTensor("ANYTHING"),
            PipelineTensor("VIDEO", DataType.UINT8, 1),
        ),
        (PipelineTensor("decoded", DataType.FP32, 3), PipelineTensor("ANYTHING")),
    )


@pytest.mark.parametrize(
    "bad", [b"", b"no pipeline", WHOLE[:60], field(2, 8), output("\xff").replace(b"\xc3", b"\xff")]
)
def test_bytes_that_are_no_pipeline(bad: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="DALI pipeline"):
        describe(bad)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(anything: bytes) -> None:
    with contextlib.suppress(InvalidArgumentError):
        describe(anything)
