"""`compute.load` as a model of the python backend."""

import numpy as np
import triton_python_backend_utils as pb_utils
from compute import load


class TritonPythonModel:
    def initialize(self, args):
        self.run = load(args["model_name"])

    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        if len(arrays) == 1:
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", self.run(arrays[0]))])]
        answer, responses, start = self.run(np.concatenate(arrays)), [], 0
        for array in arrays:
            rows = answer[start : start + len(array)]
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", rows)]))
            start += len(array)
        return responses
