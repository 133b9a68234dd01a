"""
Ensembles and their parts.

    config = an_ensemble([("a", {"IN": "X"}, {"OUT": "Y"})])          # X → a → Y, INT32 [4], max_batch_size 8
    copy = ComposingModel(a_model("a"))                               # keeps requests until told to answer
    bench = Bench(config, a_model("a"))                               # the ensemble with such models
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.scheduling import Ensemble, EnsembleStep
from charonia_runtime.core.statistics import ExecutionTimes
from charonia_runtime.core.streams import STREAM_BUFFER_BYTES
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.ensembles.composition import is_decoupled
from charonia_runtime.engine.ensembles.model import EnsembleModel
from charonia_runtime.engine.execution.answers import Labels
from tests.support.configs import a_config, a_tensor
from tests.support.models import FakeModel
from tests.support.requests import a_request

Named = str | TensorSpec
"""A tensor, or the name of one that is INT32 [4]."""
Arrays = Mapping[str, np.ndarray[Any, Any]]
ROW = np.arange(4, dtype=np.int32).reshape(1, 4)
"""One row of such a tensor."""
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


class Bench:
    """An ensemble made of `ComposingModel`s, by name."""

    def __init__(
        self,
        config: ModelConfig,
        *models: ModelConfig,
        labels: Labels | None = None,
        most_waiting_bytes: int = STREAM_BUFFER_BYTES,
    ) -> None:
        self.models = {model.name: ComposingModel(model) for model in models}
        ensemble = config.scheduling
        assert isinstance(ensemble, Ensemble)
        config = replace(config, decoupled=is_decoupled(ensemble, {model.name: model for model in models}))
        copies = [self.models[step.model_name] for step in ensemble.steps]
        self.model = EnsembleModel(
            config, ensemble, 3, copies, labels=labels or {}, most_waiting_bytes=most_waiting_bytes
        )

    def submit(self, inputs: Arrays | None = None, **fields: Any) -> InferenceRequest:
        request = a_request("pipeline", {"X": ROW} if inputs is None else inputs, **fields)
        self.model.submit(request)
        return request

    def __getitem__(self, name: str) -> ComposingModel:
        return self.models[name]

    def waiting(self, name: str) -> list[InferenceRequest]:
        return self.models[name].requests

    def answer(self, name: str, index: int = 0, **outputs: Any) -> None:
        """The oldest request of this model, or another, is answered with its rows of zeros, or with `outputs`."""
        model = self.models[name]
        model.send(model.requests[index], **(outputs or {"OUT": ROW}))
