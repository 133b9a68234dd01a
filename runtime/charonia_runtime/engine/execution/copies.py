"""
What the life cycle needs of one loaded copy of a model version, and of that which makes copies.

`engine.model.Model` is the copy; tests have simpler ones.
"""

from typing import Protocol

from charonia_runtime.core.backend import Backend, ModelFiles
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.engine.execution.answers import Labels


class ModelCopy(Protocol):
    """One loaded model version with its instances. A reload makes a new copy beside the old one."""

    @property
    def config(self) -> ModelConfig:
        """The complete configuration, as the config endpoint shows it."""

    @property
    def version(self) -> int: ...

    @property
    def statistics(self) -> ModelStatistics: ...

    @property
    def labels(self) -> Labels:
        """Of outputs that can be classified; ensembles pass them on."""

    @property
    def composing(self) -> tuple["ModelCopy", ...]:
        """The copies that requests are passed on to: those of an ensemble's steps, none for other models."""

    @property
    def in_flight(self) -> int:
        """Requests accepted and not yet answered."""

    @property
    def ready(self) -> bool:
        """Whether an instance can run a request now: false while the processes of all of them are dead."""

    async def agrees(self) -> bool:
        """Whether the model itself says that it is ready; True where it has no say."""

    @property
    def takes_device_tensors(self) -> bool:
        """Whether inputs may lie on a GPU: others would have them copied to the host first."""

    def submit(self, request: InferenceRequest) -> None: ...

    def cancel(self, request: InferenceRequest) -> None: ...

    async def drain(self) -> None:
        """Return once nothing is in flight. Requests are still accepted meanwhile."""

    @property
    def live_sequences(self) -> int:
        """Sequences of clients that have begun and not ended; those that a model drives by itself do not count."""

    def end_sequences(self) -> None:
        """Begin no new sequences; those that live go on."""

    def wind_up(self) -> None:
        """No request will be submitted any more: what will never be answered may be given up."""

    async def close(self) -> None:
        """Free everything. Called once, after the last request."""

    async def update_instances(self, config: ModelConfig) -> None:
        """
        Make the running instances those of `config`, which differs only in its instance groups.

        Raises UnsupportedError when the model must be loaded anew instead.
        """


class LoadCopy(Protocol):
    """Makes a copy that is warmed up and ready to serve. Raises InferenceError, and leaves nothing behind then."""

    async def __call__(
        self, files: ModelFiles, config: ModelConfig, backend_class: type[Backend], *, auto_complete: bool
    ) -> ModelCopy: ...
