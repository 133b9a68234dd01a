"""Tensor elements as JSON: the `data` arrays of requests and responses."""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import CancelledError, InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.core.tensor import Tensor, bytes_of, pack_bytes, shape_text, unpack_bytes, unpack_in_parts
from charonia_runtime.protocols import json_output
from charonia_runtime.protocols.json_text import as_array, as_string
from charonia_runtime.protocols.v2_json.large_arrays import MAXIMUM_DEPTH, LargeArray

_MAXIMUM_INT64 = 2**63 - 1
_MAXIMUM_UINT64 = 2**64 - 1
_ENCODED_AT_ONCE_BYTES = 32 * 1024
_PART = 16_384
"""Elements that are rendered by one call, which nothing interrupts: for a millisecond."""
_OTHER_COUNT = "Shape does not match true shape of 'data' field"
_TOO_FEW = "Failed to parse 'data' field: shape does not match true shape"
"""The newest Triton's words for too few elements, without a prefix; in 2.51 they are those of too many."""
_WITHOUT_JSON = frozenset({DataType.FP16, DataType.BF16})


@dataclass(frozen=True, slots=True)
class _Elements:
    """What JSON a data type accepts, and how its elements are gathered before they are narrowed to it."""

    typecode: str
    types: frozenset[type]
    accepts: Callable[[Any], bool]
    refusal: str


_BOOLEANS = _Elements(
    "b", frozenset({bool}), lambda value: type(value) is bool, "attempt to access JSON non-boolean as boolean"
)
_UNSIGNED = _Elements(
    "Q",
    frozenset({int}),
    lambda value: type(value) is int and 0 <= value <= _MAXIMUM_UINT64,
    "attempt to access JSON non-unsigned-integer as unsigned-integer",
)
_SIGNED = _Elements(
    "q",
    frozenset({int}),
    lambda value: type(value) is int and value <= _MAXIMUM_INT64,
    "attempt to access JSON non-signed-integer as signed-integer",
)
_SINGLES = _Elements(
    "f",
    frozenset({int, float}),
    lambda value: type(value) in {int, float},
    "attempt to access JSON non-number as double",
)
_DOUBLES = _Elements("d", _SINGLES.types, _SINGLES.accepts, _SINGLES.refusal)
_ELEMENTS = {
    DataType.BOOL: _BOOLEANS,
    DataType.UINT8: _UNSIGNED, DataType.UINT16: _UNSIGNED, DataType.UINT32: _UNSIGNED, DataType.UINT64: _UNSIGNED,
    DataType.INT8: _SIGNED, DataType.INT16: _SIGNED, DataType.INT32: _SIGNED, DataType.INT64: _SIGNED,
    DataType.FP32: _SINGLES, DataType.FP64: _DOUBLES,
}  # fmt: skip


def decode_data(
    name: str, datatype: DataType, shape: tuple[int, ...], data: Any, maximum_bytes: int, *, newest_rules: bool = True
) -> memoryview:
    """
    The elements of input `name` in the wire's encoding, read-only; nesting of `data` is not compared with `shape`.

    Numbers are narrowed to the data type modulo its size. Raises InferenceError with Triton's text where the data do
    not fit type or shape, or are larger than `maximum_bytes`; `newest_rules` chooses
    that for too few elements. The number of strings is for the engine to check.
    """
    if datatype in _WITHOUT_JSON:
        raise InvalidArgumentError(
            f"receiving {datatype.wire_name} data via JSON is not supported. Please use the binary data format for "
            f"input {name}"
        )
    if datatype is DataType.INVALID:
        raise InvalidArgumentError(f"invalid datatype for input {name}")
    count = _element_count(name, datatype, shape, maximum_bytes)
    if isinstance(data, LargeArray):
        return _decode_large(datatype, data, count, newest_rules=newest_rules)
    try:
        given = as_array(data)
        if count and datatype is not DataType.BYTES:
            return _decode_numbers(datatype, given, count)
    except InferenceError as error:
        raise _worded(error, newest_rules=newest_rules) from None
    return _decode_texts(_flat(given)) if count else memoryview(b"")


def encodes_slowly(tensor: Tensor) -> bool:
    """Whether `encode_data` may take milliseconds: longer than the event loop can wait."""
    return tensor.byte_size > _ENCODED_AT_ONCE_BYTES


def encode_data(tensor: Tensor, is_wanted: Callable[[], bool] = lambda: True) -> bytes:
    """
    The elements as a flat JSON array.

    Raises InvalidArgumentError for types that have no JSON form, and CancelledError soon after `is_wanted` is false.
    In a thread it leaves the interpreter to others every millisecond.
    """
    datatype = tensor.datatype
    if datatype in _WITHOUT_JSON:
        raise InvalidArgumentError(
            f"sending {datatype.wire_name} data via JSON is not supported. Please use the binary data format for output"
        )
    if datatype is DataType.BYTES:
        if not encodes_slowly(tensor):
            return json_output.render_texts(unpack_bytes(tensor.buffer, tensor.name))
        return _joined(map(json_output.render_texts, unpack_in_parts(tensor.buffer, tensor.name, _PART)), is_wanted)
    elements = np.frombuffer(tensor.buffer, dtype=datatype.numpy_dtype)
    if datatype is DataType.BOOL:
        elements = elements.view(np.uint8) != 0
    render = json_output.render_floats if elements.dtype.kind == "f" else json_output.render_integers
    if len(elements) <= _PART:
        return render(elements)
    return _joined((render(elements[at : at + _PART]) for at in range(0, len(elements), _PART)), is_wanted)


def _joined(arrays: Iterable[bytes], is_wanted: Callable[[], bool]) -> bytes:
    """One JSON array of all the elements in these, none of which is empty."""
    parts: list[bytes] = []
    for text in arrays:
        if not is_wanted():
            raise CancelledError("")
        parts += (b"," if parts else b"[", text[1:-1])
    parts.append(b"]")
    return b"".join(parts)


def _element_count(name: str, datatype: DataType, shape: tuple[int, ...], maximum_bytes: int) -> int:
    count = prod(shape)
    if count > _MAXIMUM_INT64:
        raise InvalidArgumentError(
            f"invalid shape for input '{name}': shape {shape_text(shape)} causes total element count to exceed "
            f"maximum size of {_MAXIMUM_INT64}"
        )
    byte_size = count * datatype.item_size
    if byte_size > _MAXIMUM_INT64:
        raise InvalidArgumentError(
            f"byte size overflow for input '{name}': element count ({count}) * data type size ({datatype.item_size}) "
            f"exceeds maximum allowed size ({_MAXIMUM_INT64})"
        )
    if byte_size > maximum_bytes:
        raise InvalidArgumentError(
            f"JSON input '{name}' has a byte_size ({byte_size} bytes) that exceeds the maximum allowed value of "
            f"{maximum_bytes} bytes. Use --http-max-input-size to increase the limit."
        )
    return count


def _flat(data: list[Any]) -> list[Any]:
    """The elements in row-major order, whatever the nesting."""
    depth = 1
    while list in set(map(type, data)):
        depth += 1
        if depth > MAXIMUM_DEPTH:
            raise InvalidArgumentError(f"JSON nesting depth exceeds maximum allowed limit ({MAXIMUM_DEPTH})")
        flatter: list[Any] = []
        for value in data:
            if type(value) is list:
                flatter += value
            else:
                flatter.append(value)
        data = flatter
    return data


def _decode_numbers(datatype: DataType, data: list[Any], count: int) -> memoryview:
    elements = _ELEMENTS[datatype]
    values = data
    gathered = _gather(elements, values)
    if gathered is None:
        values = _flat(data)
        gathered = _gather(elements, values)
    if gathered is None:
        first_refused = next(index for index, value in enumerate(values) if not elements.accepts(value))
        if first_refused < count:
            raise InternalError(elements.refusal)
    if gathered is None or len(gathered) != count:
        raise InternalError(_OTHER_COUNT if gathered is None or len(gathered) > count else _TOO_FEW)
    if gathered.itemsize == datatype.item_size:
        return memoryview(gathered).cast("B").toreadonly()
    return bytes_of(np.frombuffer(gathered, dtype=gathered.typecode).astype(datatype.numpy_dtype)).toreadonly()


def _worded(error: InferenceError, *, newest_rules: bool) -> InferenceError:
    """Return the error with what Triton says before it."""
    if error.message == _TOO_FEW:
        if newest_rules:
            return error
        error = InternalError(_OTHER_COUNT)
    return error.with_prefix("Unable to parse 'data': ")


def _decode_large(datatype: DataType, data: LargeArray, count: int, *, newest_rules: bool) -> memoryview:
    """The same for an array that is read piece by piece. Mistakes in its text come before all others."""
    if not count:
        data.check()
        return memoryview(b"")
    if datatype is DataType.BYTES:
        return memoryview(b"".join([_decode_texts(_flat(values)) for values in data.values()]))
    elements = _ELEMENTS[datatype]
    array = np.empty(min(count, data.end - data.start), datatype.numpy_dtype)
    at, refusal = 0, None
    typecode = "d" if elements is _SINGLES else elements.typecode
    for part in data.values() if elements is _BOOLEANS else data.numbers(typecode):
        try:
            numbers = part if isinstance(part, np.ndarray) else _numbers_of(elements, part, count - at)
        except InferenceError as error:
            refusal = refusal or error
            continue
        if refusal is None and at + len(numbers) <= len(array):
            with np.errstate(over="ignore"):  # infinity, as in Triton
                array[at : at + len(numbers)] = numbers.astype(datatype.numpy_dtype)
        at += len(numbers)
    if refusal is None and at != count:
        refusal = InternalError(_OTHER_COUNT if at > count else _TOO_FEW)
    if refusal is not None:
        raise _worded(refusal, newest_rules=newest_rules)
    return bytes_of(array).toreadonly()


def _numbers_of(elements: _Elements, values: list[Any], missing: int) -> npt.NDArray[Any]:
    """The elements in lists. Raises InternalError when one of the `missing` ones, or any, is not acceptable."""
    flat = _flat(values)
    gathered = _gather(elements, flat)
    if gathered is None:
        first_refused = next(index for index, value in enumerate(flat) if not elements.accepts(value))
        raise InternalError(elements.refusal if first_refused < missing else _OTHER_COUNT)
    return np.frombuffer(gathered, gathered.typecode)


def _gather(elements: _Elements, values: list[Any]) -> "array[Any] | None":
    """All values as one array; None when one of them is not acceptable."""
    if not set(map(type, values)) <= elements.types:
        return None
    try:
        return array(elements.typecode, values)
    except OverflowError:
        return None


def _decode_texts(values: list[Any]) -> memoryview:
    try:
        return pack_bytes([as_string(value).encode("utf-8", "surrogateescape") for value in values])
    except InferenceError as error:
        raise error.with_prefix("Unable to parse JSON bytes array: ") from None
