"""Reads what the recognition model says of each narrow column: the likeliest letter, once however wide it is."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

NO_LETTER = 0


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        characters = Path(args["model_repository"], args["model_version"], "characters.txt").read_text("utf-8")
        self.letters = ["", *characters.removesuffix("\n").split("\n"), " "]

    def execute(self, requests: list[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        return [pb_utils.InferenceResponse(self.read(request)) for request in requests]

    def read(self, request: pb_utils.InferenceRequest) -> list[pb_utils.Tensor]:
        columns = pb_utils.get_input_tensor_by_name(request, "LETTERS").as_numpy()
        texts, confidences = [], []
        for chosen, certainty in zip(columns.argmax(axis=2), columns.max(axis=2), strict=True):
            seen = (chosen != NO_LETTER) & (chosen != np.roll(chosen, 1))
            texts.append("".join([self.letters[index] for index in chosen[seen]]))
            confidences.append(certainty[seen].mean() if seen.any() else 0)
        return [
            pb_utils.Tensor("TEXT", np.array(texts, np.object_)),
            pb_utils.Tensor("CONFIDENCE", np.array(confidences, np.float32)),
        ]
