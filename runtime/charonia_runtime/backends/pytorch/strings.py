"""BYTES as TorchScript has them: lists of strings, which its Python package takes and gives as `str`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.errors import InvalidArgumentError


def strings_of(elements: npt.NDArray[Any], name: str) -> list[str]:
    """The elements as text. Raises InvalidArgumentError naming input `name` for bytes that are not UTF-8."""
    try:
        return [element.decode() for element in elements.reshape(-1).tolist()]
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"input '{name}' has BYTES elements that are not UTF-8, which torch's Python package does not take"
        ) from error


def array_of(strings: Sequence[str], dims: Sequence[int]) -> npt.NDArray[Any]:
    """One element for each string. `dims` is what the configuration says of one, sizes of 1 that follow the list's."""
    array = np.empty(len(strings), dtype=object)
    array[:] = [string.encode() for string in strings]
    return array.reshape(len(strings), *dims)
