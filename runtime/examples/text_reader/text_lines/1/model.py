"""Finds the lines of text where the detector sees any, cuts them out and brings them to the same height."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

Pixels = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Box = tuple[int, int, int, int]

THRESHOLD = 0.3
GROWTH = 1.6
"""Detectors are trained on text whose rim is taken off: a box grows by this share of its area by its perimeter."""
SMALLEST = 3
HEIGHT = 48
NARROWEST = 320


class TritonPythonModel:
    def execute(self, requests: list[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        return [pb_utils.InferenceResponse(cut(request)) for request in requests]


def cut(request: pb_utils.InferenceRequest) -> list[pb_utils.Tensor]:
    pixels, likelihood = [
        pb_utils.get_input_tensor_by_name(request, name).as_numpy()[0] for name in ("PIXELS", "LIKELIHOOD")
    ]
    boxes = sorted(boxes_of(likelihood[0] > THRESHOLD), key=lambda box: box[1])
    boxes = boxes or [(0, 0, pixels.shape[2], pixels.shape[1])]  # a batch of no rows cannot be: look at everything
    lines = [scaled(pixels[:, top:bottom, left:right]) for left, top, right, bottom in boxes]
    widths = [line.shape[2] for line in lines]
    padded = np.zeros((len(lines), 3, HEIGHT, max(NARROWEST, *widths)), np.float32)
    for place, line in zip(padded, lines, strict=True):
        place[:, :, : line.shape[2]] = line
    return [
        pb_utils.Tensor("BOXES", np.array(boxes, np.int32)),
        pb_utils.Tensor("LINES", padded),
        pb_utils.Tensor("WIDTHS", np.array(widths, np.int32)),
    ]


def boxes_of(mask: Mask) -> list[Box]:
    """Left, top, right and bottom of each connected region, grown back to the size of its text."""
    height, width = mask.shape
    boxes = []
    for left, top, right, bottom in regions(mask):
        if min(right - left, bottom - top) >= SMALLEST:
            rim = round((right - left) * (bottom - top) * GROWTH / (2 * (right - left + bottom - top)))
            boxes.append((max(0, left - rim), max(0, top - rim), min(width, right + rim), min(height, bottom + rim)))
    return boxes


def regions(mask: Mask) -> Iterator[Box]:
    """The box of each connected region: numbers spread to their neighbours until all of a region have its highest."""
    numbers = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    while True:
        around = np.pad(numbers, 1)
        neighbours = around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]
        spread = np.where(mask, np.maximum.reduce([numbers, *neighbours]), 0)
        if np.array_equal(spread, numbers):
            break
        numbers = spread
    for number in np.unique(numbers[mask]):
        rows, columns = np.nonzero(numbers == number)
        yield columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


def scaled(line: Pixels) -> Pixels:
    """The line at the common height, between its pixels by straight lines."""
    _, height, width = line.shape
    rows = np.linspace(0, height - 1, HEIGHT)
    columns = np.linspace(0, width - 1, max(1, round(width * HEIGHT / height)))
    across = between(line, columns, axis=2)
    return between(across, rows, axis=1)


def between(line: Pixels, places: npt.NDArray[np.float64], axis: int) -> Pixels:
    """The values of `line` at these places, which need not be whole, along an axis."""
    before = places.astype(int)
    after = np.minimum(before + 1, line.shape[axis] - 1)
    share = (places - before).astype(np.float32).reshape([-1 if axis == other else 1 for other in range(line.ndim)])
    return line.take(before, axis) * (1 - share) + line.take(after, axis) * share
