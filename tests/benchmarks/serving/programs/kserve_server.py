"""`compute.load` as a model of KServe's Python server."""

import os

from compute import load
from kserve import InferOutput, InferResponse, Model, ModelServer


class Computed(Model):
    def __init__(self, name):
        super().__init__(name)
        self.run = load(name)
        self.ready = True

    async def predict(self, payload, headers=None, response_headers=None):
        answer = self.run(payload.inputs[0].as_numpy())
        output = InferOutput("OUTPUT0", list(answer.shape), "FP32")
        output.set_data_from_numpy(answer, binary_data=True)
        return InferResponse(
            payload.id or "",
            self.name,
            [output],
            from_grpc=payload.from_grpc,
            use_binary_outputs=payload.use_binary_outputs,
            requested_outputs=payload.request_outputs,
        )


if __name__ == "__main__":
    ModelServer(workers=1).start([Computed(os.environ["BENCHMARK_MODEL"])])
