"""
Loaded models without a backend, and what the life cycle's tests read them from.

    factory = FakeModels()                       # makes `FakeModel`s: factory.made, factory.failures, factory.hold()
    reader = FakeReader()
    reader.put("simple", versions=(1, 2))        # as if it lay in a repository
    loader = ModelLoader(ModelRegistry(), reader, factory, FileThreads())
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InferenceError, UnavailableError, UnsupportedError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.engine.lifecycle.overrides import OverrideDirectory
from charonia_runtime.engine.lifecycle.reading import Override, PolledModel, PollError
from charonia_runtime.engine.lifecycle.repository import Modifications, RepositoryEntry, Stamp


class FakeModel:
    """A copy that keeps requests until `answer_all`."""

    def __init__(self, config: ModelConfig, version: int) -> None:
        self.config = config
        self.version = version
        self.statistics = ModelStatistics()
        self.requests: list[InferenceRequest] = []
        self.updates: list[ModelConfig] = []
        self.in_place = True
        self.ready = True
        self.takes_device_tensors = False
        self.willing = True
        self.winding_up = False
        self.closed = False
        self.labels: dict[str, list[str]] = {}
        self.live_sequences = 0
        self.begins_sequences = True
        self.composing: tuple[FakeModel, ...] = ()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def in_flight(self) -> int:
        return len(self.requests)

    async def agrees(self) -> bool:
        return self.willing

    def wind_up(self) -> None:
        self.winding_up = True

    def submit(self, request: InferenceRequest) -> None:
        if self.closed:
            raise UnavailableError("the model is closed")
        self.requests.append(request)
        self._idle.clear()

    def cancel(self, request: InferenceRequest) -> None:
        if request in self.requests:
            self.answer(request)

    def answer(self, request: InferenceRequest) -> None:
        self.requests.remove(request)
        request.sink.send(InferenceResponse(request.model_name, self.version, request.id))
        if not self.requests:
            self._idle.set()

    def answer_all(self) -> None:
        for request in list(self.requests):
            self.answer(request)

    def end_sequences(self) -> None:
        self.begins_sequences = False

    async def drain(self) -> None:
        await self._idle.wait()

    async def close(self) -> None:
        assert self.winding_up, "first it must hear that no request comes any more"
        assert not self.closed
        assert not self.requests
        self.closed = True

    async def update_instances(self, config: ModelConfig) -> None:
        if not self.in_place:
            raise UnsupportedError("instances cannot be updated")
        self.updates.append(config)
        self.config = config


class FakeModels:
    """Makes copies; `failures` says what goes wrong, by (name, version), and `gates` what waits."""

    def __init__(self) -> None:
        self.made: list[FakeModel] = []
        self.attempts: list[tuple[str, int]] = []
        self.failures: dict[tuple[str, int], Exception] = {}
        self.running = 0
        self.most_running = 0
        self._gates: dict[tuple[str, int], asyncio.Event] = {}
        self._changed = asyncio.Condition()

    def hold(self, name: str, version: int) -> asyncio.Event:
        """Loads of this version wait until the event that this returns is set."""
        return self._gates.setdefault((name, version), asyncio.Event())

    async def wait_for_attempts(self, count: int) -> None:
        """Return once so many loads began."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.attempts) >= count)

    async def __call__(self, polled: PolledModel, version: int) -> FakeModel:
        key = (polled.name, version)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            self.attempts.append(key)
            async with self._changed:
                self._changed.notify_all()
            if key in self._gates:
                await self._gates[key].wait()
            if key in self.failures:
                raise self.failures[key]
            model = FakeModel(polled.config, version)
            self.made.append(model)
            return model
        finally:
            self.running -= 1

    def newest(self, name: str, version: int) -> FakeModel:
        return [model for model in self.made if (model.config.name, model.version) == (name, version)][-1]


class FakeReader:
    """A repository in memory. Versions and other files have a number instead of a time: a larger one is newer."""

    def __init__(self) -> None:
        self.models: dict[str, PolledModel] = {}
        self.ambiguous: set[str] = set()
        self.reads: list[str] = []

    def put(
        self,
        name: str,
        versions: tuple[int, ...] | Mapping[int, int] = (1,),
        *,
        selected: tuple[int, ...] | None = None,
        others: int = 1,
        config_time: int = 1,
        document: Mapping[str, Any] | None = None,
    ) -> PolledModel:
        """Make the model, or replace what is there. `selected` are the versions that its policy selects."""
        self.models[name] = a_polled(
            name, versions, selected=selected, others=others, config_time=config_time, document=document
        )
        return self.models[name]

    def remove(self, name: str) -> None:
        del self.models[name]

    def __call__(self, name: str, override: Override | None = None) -> PolledModel:
        self.reads.append(name)
        if override is not None and override.files:
            directory = OverrideDirectory(name, override.files)
            polled = a_polled(name, document={"override": override.config})
            return replace(
                polled,
                overridden=True,
                override_directory=directory,
                entry=replace(polled.entry, directory=directory.path),
            )
        if name not in self.models:
            raise PollError(f"failed to poll model '{name}': model not found in any model repository.")
        if name in self.ambiguous:
            raise PollError(f"failed to poll model '{name}': not unique across all model repositories")
        polled = self.models[name]
        if override is None:
            return polled
        return replace(polled, overridden=True, config=replace(polled.config, document={"override": override.config}))


def a_polled(
    name: str = "simple",
    versions: tuple[int, ...] | Mapping[int, int] = (1,),
    *,
    selected: tuple[int, ...] | None = None,
    others: int = 1,
    config_time: int = 1,
    document: Mapping[str, Any] | None = None,
) -> PolledModel:
    """A model as it was read; see `FakeReader.put`."""
    times = versions if isinstance(versions, Mapping) else dict.fromkeys(versions, 1)
    directory = Path("/repository") / name
    entry = RepositoryEntry(
        name=name,
        directory=directory,
        config_path=directory / "config.pbtxt",
        versions=tuple(sorted(times)),
        first_version_files={},
        modifications=Modifications(
            directory=Stamp(len(times)),
            config=Stamp(config_time),
            others=Stamp(others),
            versions={version: Stamp(time) for version, time in times.items()},
        ),
    )
    config = ModelConfig(name, backend="fake", document={"name": name, **(document or {})})
    return PolledModel(entry, config, tuple(sorted(times)) if selected is None else selected)


class RecordingSink:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.responses: list[InferenceResponse] = []

    def send(self, response: InferenceResponse) -> None:
        self.responses.append(response)

    @property
    def error(self) -> InferenceError | None:
        return self.responses[-1].error if self.responses else None
