"""Turns the lines that stand on their heads."""

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

CERTAIN = 0.9


class TritonPythonModel:
    def execute(self, requests: list[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        return [pb_utils.InferenceResponse([pb_utils.Tensor("UPRIGHT", turned(request))]) for request in requests]


def turned(request: pb_utils.InferenceRequest) -> npt.NDArray[np.float32]:
    lines, widths, directions = [
        pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("LINES", "WIDTHS", "DIRECTIONS")
    ]
    upright = lines.copy()
    for line, width, (_, upside_down) in zip(upright, widths, directions, strict=True):
        if upside_down > CERTAIN:
            line[:, :, :width] = line[:, ::-1, :width][:, :, ::-1].copy()
    return upright
