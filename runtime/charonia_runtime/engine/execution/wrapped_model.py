"""`WrappedModel`: what stands in front of a model and is one to everybody else."""

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.engine.execution.answers import Labels
from charonia_runtime.engine.execution.copies import ModelCopy


class WrappedModel:
    """Passes everything on to `model`. Implements `ModelCopy`; subclasses override what they add to."""

    def __init__(self, model: ModelCopy) -> None:
        self._model = model

    @property
    def config(self) -> ModelConfig:
        return self._model.config

    @property
    def version(self) -> int:
        return self._model.version

    @property
    def statistics(self) -> ModelStatistics:
        return self._model.statistics

    @property
    def labels(self) -> Labels:
        return self._model.labels

    @property
    def composing(self) -> tuple[ModelCopy, ...]:
        return self._model.composing

    @property
    def in_flight(self) -> int:
        return self._model.in_flight

    @property
    def ready(self) -> bool:
        return self._model.ready

    async def agrees(self) -> bool:
        return await self._model.agrees()

    @property
    def takes_device_tensors(self) -> bool:
        return self._model.takes_device_tensors

    def submit(self, request: InferenceRequest) -> None:
        self._model.submit(request)

    def cancel(self, request: InferenceRequest) -> None:
        self._model.cancel(request)

    async def drain(self) -> None:
        await self._model.drain()

    @property
    def live_sequences(self) -> int:
        return self._model.live_sequences

    def end_sequences(self) -> None:
        self._model.end_sequences()

    def wind_up(self) -> None:
        self._model.wind_up()

    async def close(self) -> None:
        await self._model.close()

    async def update_instances(self, config: ModelConfig) -> None:
        await self._model.update_instances(config)
