"""`compute.load` as a runtime of MLServer."""

import os

from compute import load
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Runtime(MLModel):
    async def load(self):
        self.run = load(os.environ["BENCHMARK_MODEL"])
        return True

    async def predict(self, payload):
        answer = NumpyCodec.encode_output("OUTPUT0", self.run(NumpyCodec.decode_input(payload.inputs[0])))
        return InferenceResponse(model_name=self.name, model_version=self.version, id=payload.id, outputs=[answer])
