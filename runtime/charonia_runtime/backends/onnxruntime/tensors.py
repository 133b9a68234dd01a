"""
Arrays as core has them ⇄ what a session takes and gives.

Numbers pass without a copy. Two types do not pass through onnxruntime's Python package as they are:

* BF16 has no numpy type there: its bits travel in an `OrtValue`.
* BYTES become `str`, which must be UTF-8. Other bytes pass into a model as fixed-width strings, unless an element holds
  a NUL byte or the elements' lengths differ too much; out of a model they do not pass at all.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError

_ONNX_BFLOAT16 = 16
_PADDING_FACTOR = 16
_PADDING_FLOOR = 1 << 20


def string_array(elements: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """BYTES as a session takes them. Raises InvalidArgumentError naming input `name` when they cannot pass."""
    flat = elements.reshape(-1).tolist()
    try:
        decoded = [element.decode() for element in flat]
    except UnicodeDecodeError:
        return _fixed_width(flat, name).reshape(elements.shape)
    array = np.empty(len(decoded), dtype=object)
    array[:] = decoded
    return array.reshape(elements.shape)


def _fixed_width(elements: list[bytes], name: str) -> npt.NDArray[Any]:
    longest = max(map(len, elements))
    if all(len(element) == longest for element in elements):
        # Void elements are copied whole, NUL bytes included.
        return np.frombuffer(b"".join(elements), dtype=f"V{longest}")
    # onnxruntime looks for the NUL behind each string, beyond the element's width if need be.
    width = longest + 1
    padded = width * len(elements)
    if padded > _PADDING_FACTOR * sum(map(len, elements)) + _PADDING_FLOOR or any(b"\0" in e for e in elements):
        raise InvalidArgumentError(
            f"input '{name}' has BYTES elements that are not UTF-8; onnxruntime takes those only if they hold no NUL "
            "byte and are of similar length"
        )
    return np.array(elements, dtype=f"S{width}")


def bfloat16_value(library: Any, bits: npt.NDArray[Any]) -> Any:
    """BF16 bits as an `OrtValue` over the same memory."""
    contiguous = np.require(bits, dtype=DataType.BF16.numpy_dtype, requirements=["C", "A"])
    return library.OrtValue.ortvalue_from_numpy_with_onnx_type(contiguous, _ONNX_BFLOAT16)


class _BorrowedBits:
    """numpy's array interface over the memory of a BF16 `OrtValue`, which stays alive as long as the array."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.__array_interface__ = {
            "version": 3,
            "typestr": DataType.BF16.numpy_dtype.str,
            "shape": tuple(value.shape()),
            "data": (value.data_ptr(), False),
        }


def array_of(value: Any) -> npt.NDArray[Any]:
    """The elements of an `OrtValue` in CPU memory, without a copy; BF16 as bits."""
    if value.data_type() == "tensor(bfloat16)":
        shape = tuple(value.shape())
        return np.asarray(_BorrowedBits(value)) if 0 not in shape else np.empty(shape, DataType.BF16.numpy_dtype)
    array: npt.NDArray[Any] = value.numpy()
    return array
