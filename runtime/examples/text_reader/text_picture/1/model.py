"""A picture as the text detector wants it: channels first, values from -1 to 1, sides multiples of 32."""

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

SIDE = 32


class TritonPythonModel:
    def execute(self, requests: list[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        return [pb_utils.InferenceResponse([pb_utils.Tensor("PIXELS", pixels(request))]) for request in requests]


def pixels(request: pb_utils.InferenceRequest) -> npt.NDArray[np.float32]:
    picture = pb_utils.get_input_tensor_by_name(request, "PICTURE").as_numpy()
    height, width, _ = picture.shape
    padded = np.pad(picture, ((0, -height % SIDE), (0, -width % SIDE), (0, 0)), mode="edge")
    return padded.transpose(2, 0, 1)[np.newaxis].astype(np.float32) / 127.5 - 1
