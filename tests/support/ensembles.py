"""
Ensembles and their parts.

    config = an_ensemble([("a", {"IN": "X"}, {"OUT": "Y"})])          # X → a → Y, INT32 [4], max_batch_size 8
    copy = ComposingModel(a_model("a"))                               # keeps requests until told to answer
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.scheduling import Ensemble, EnsembleStep
from charonia_runtime.core.statistics import ExecutionTimes
from charonia_runtime.core.tensor import Tensor
from tests.support.configs import a_config, a_tensor
from tests.support.models import FakeModel

Named = str | TensorSpec
"""A tensor, or the name of one that is INT32 [4]."""
Step = tuple[str, Mapping[str, str], Mapping[str, str]]


def a_model(
    name: str, inputs: Sequence[Named] = ("IN",), outputs: Sequence[Named] = ("OUT",), **changes: Any
) -> ModelConfig:
    """A model of INT32 [4] tensors that batches up to 8."""
    fields = {
        "inputs": tuple(_a_tensor(one) for one in inputs),
        "outputs": tuple(_a_tensor(one) for one in outputs),
    }
    return a_config(name, **{**fields, **changes})


def an_ensemble(
    steps: Sequence[Step],
    inputs: Sequence[Named] = ("X",),
    outputs: Sequence[Named] = ("Y",),
    *,
    name: str = "pipeline",
    most: int = 0,
    version: int = -1,
    **changes: Any,
) -> ModelConfig:
    """An ensemble of these steps: model, input map, output map; `most` is max_inflight_requests."""
    ensemble = Ensemble(tuple(EnsembleStep(model, version, into, out) for model, into, out in steps), most)
    fields = {"backend": "", "platform": "ensemble", "scheduling": ensemble, "instance_groups": ()}
    return a_model(name, inputs, outputs, **{**fields, **changes})


def _a_tensor(named: Named) -> TensorSpec:
    return named if isinstance(named, TensorSpec) else a_tensor(named, DataType.INT32, 4)


class ComposingModel(FakeModel):
    """A copy that answers when the test says so."""

    def __init__(self, config: ModelConfig, version: int = 1) -> None:
        super().__init__(config, version)
        self.refusal: InferenceError | None = None
        self.cancelled: list[InferenceRequest] = []

    def submit(self, request: InferenceRequest) -> None:
        if self.refusal is not None:
            raise self.refusal
        super().submit(request)

    def cancel(self, request: InferenceRequest) -> None:
        self.cancelled.append(request)

    def send(self, request: InferenceRequest, *, final: bool = True, **outputs: Any) -> None:
        """Answer with arrays or tensors by name; a final answer counts as an execution of 3 ns."""
        tensors = [
            value if isinstance(value, Tensor) else Tensor.from_numpy(name, np.asarray(value, np.int32))
            for name, value in outputs.items()
        ]
        if final and request.executed is not None:
            request.executed(ExecutionTimes(0, 1, 2, 3))
        self._send(request, InferenceResponse(self.config.name, self.version, request.id, tensors, final=final))

    def fail(self, request: InferenceRequest, error: InferenceError, *, final: bool = True) -> None:
        self._send(request, InferenceResponse(self.config.name, self.version, error=error, final=final))

    def end(self, request: InferenceRequest) -> None:
        self._send(request, InferenceResponse(self.config.name, self.version, flag_only=True))

    def _send(self, request: InferenceRequest, response: InferenceResponse) -> None:
        if response.final:
            self.requests.remove(request)
            if not self.requests:
                self._idle.set()
        request.sink.send(response)
