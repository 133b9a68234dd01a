"""`EnsembleModel`: one loaded version of an ensemble, as the registry and the loader know models."""

import asyncio
import time
from collections.abc import Callable, Sequence

from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InternalError, UnavailableError, UnsupportedError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.core.streams import STREAM_BUFFER_BYTES
from charonia_runtime.core.validation import refuse_unsupported, validate_tensors
from charonia_runtime.engine.ensembles.crew import Crew
from charonia_runtime.engine.ensembles.flight import Flight
from charonia_runtime.engine.execution.admission import Admission, MemoryResolver
from charonia_runtime.engine.execution.answers import Labels, read_labels
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.protocols.model_config import complete
from charonia_runtime.thread_pools import LOADING

Bind = Callable[[ModelConfig, Ensemble], tuple[ModelConfig, tuple[ModelCopy, ...]]]
"""The final configuration and the copies of the steps, as of now. Raises InvalidArgumentError."""


class EnsembleModel:
    """
    A model that submits its requests to other models. Implements `engine.copies.ModelCopy`; used on the event loop.

    It goes on with the copies that it was made with until it is closed, whatever replaces them meanwhile.
    """

    def __init__(
        self,
        config: ModelConfig,
        ensemble: Ensemble,
        version: int,
        composing: Sequence[ModelCopy],
        *,
        labels: Labels,
        resolve_memory: MemoryResolver | None = None,
        most_waiting_bytes: int = STREAM_BUFFER_BYTES,
    ) -> None:
        """
        `config` is complete; `composing` are the models of the steps, in their order; `labels` the files' own.

        `most_waiting_bytes` of responses may wait for a limit when a decoupled step sends more of them.
        """
        self.config = config
        self.version = version
        self.composing = tuple(composing)
        self._admission = Admission(config, resolve_memory)
        self._crew = Crew(config, ensemble, version, composing, labels, most_waiting_bytes=most_waiting_bytes)
        self._flights: dict[int, Flight] = {}
        """By the identity of their requests."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @classmethod
    async def load(
        cls,
        files: ModelFiles,
        config: ModelConfig,
        bind: Bind,
        *,
        resolve_memory: MemoryResolver | None = None,
        most_waiting_bytes: int = STREAM_BUFFER_BYTES,
    ) -> "EnsembleModel":
        """
        A version that is ready to serve. Raises InferenceError.

        `bind` is called last, and nothing waits after it: whoever keeps its copies alive for the ensemble can be told
        before one of them ends.
        """

        def prepare() -> tuple[ModelConfig, Labels]:
            completed = complete(config)
            refuse_unsupported(completed)
            validate_tensors(completed)
            return completed, read_labels(files.directory, completed)

        completed, labels = await LOADING.run(prepare)
        scheduling = completed.scheduling
        if not isinstance(scheduling, Ensemble):
            raise InternalError(f"model '{config.name}' is no ensemble")
        bound, composing = bind(completed, scheduling)
        return cls(
            bound, scheduling, files.version, composing, labels=labels, resolve_memory=resolve_memory,
            most_waiting_bytes=most_waiting_bytes,
        )  # fmt: skip

    @property
    def statistics(self) -> ModelStatistics:
        return self._crew.statistics

    @property
    def ready(self) -> bool:
        """Whether every step could run now."""
        return all(copy.ready for copy in self.composing)

    async def agrees(self) -> bool:
        """Whether the models of all steps say that they are ready."""
        return all(await asyncio.gather(*(copy.agrees() for copy in self.composing)))

    @property
    def labels(self) -> Labels:
        return self._crew.labels

    @property
    def takes_device_tensors(self) -> bool:
        """Its steps may, but its inputs can go to any of them."""
        return False

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    def submit(self, request: InferenceRequest) -> None:
        """Raises InferenceError when the request itself is refused; a step's refusal is its answer."""
        if self._closed:
            raise UnavailableError(
                f"{request.error_prefix}Server is stopping, scheduler for model has stopped accepting new inference "
                "requests"
            )
        self._admission.check(request)
        request.arrival_ns = request.queued_ns = time.monotonic_ns()
        plan = self._crew.graph.plan([output.name for output in request.outputs])
        flight = self._flights[id(request)] = Flight(request, plan, self._crew, self._landed)
        self._idle.clear()
        flight.start()

    def cancel(self, request: InferenceRequest) -> None:
        request.cancelled = True
        flight = self._flights.get(id(request))
        if flight is not None:
            flight.cancel()

    async def drain(self) -> None:
        await self._idle.wait()

    @property
    def live_sequences(self) -> int:
        """Those of its steps are theirs."""
        return 0

    def end_sequences(self) -> None:
        """Its steps are told by themselves."""

    def wind_up(self) -> None:
        """Its steps may serve others: they are not its own to give up."""

    async def close(self) -> None:
        self._closed = True
        await self.drain()

    async def update_instances(self, config: ModelConfig) -> None:  # noqa: ARG002 - it has no instances
        """Raises UnsupportedError: there is nothing that could change without a reload."""
        raise UnsupportedError("ensembles have no instances")

    def _landed(self, flight: Flight) -> None:
        self._flights.pop(id(flight.request), None)
        if not self._flights:
            self._idle.set()
