"""
Which versions of which models there are, in which state, and which copy serves each: Triton's model life cycle.

Pure state, without I/O, tasks or clocks: `engine.loading` says what happened, a table says what follows. A version
that serves goes on serving until its replacement is there; there is no moment between the two.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum, auto

from charonia_runtime.core.errors import InferenceError, InvalidArgumentError
from charonia_runtime.core.missing_models import unknown_model, unknown_version, unready_version
from charonia_runtime.core.request import ANY_VERSION
from charonia_runtime.core.server import IndexEntry, ServedModel, VersionStatistics
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.engine.execution.copies import ModelCopy

UNLOADED = "unloaded"
"""The reason of versions that are unavailable because somebody wanted it so."""
DUPLICATE = "model appears in two or more repositories"


class VersionState(Enum):
    """What the repository index shows."""

    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


class Event(Enum):
    """What can happen to a version."""

    LOAD = auto()
    LOADED = auto()
    FAILED = auto()
    ABANDONED = auto()
    """It loaded, but another version of the same load failed."""
    UNLOAD = auto()
    UNLOADED = auto()
    FORGET = auto()
    """Its directory is gone: nobody waits for it any more."""


_NEW = None
TRANSITIONS: Mapping[tuple[VersionState | None, Event], VersionState] = {
    (_NEW, Event.LOAD): VersionState.LOADING,
    (VersionState.UNAVAILABLE, Event.LOAD): VersionState.LOADING,
    (VersionState.UNLOADING, Event.LOAD): VersionState.LOADING,
    (VersionState.READY, Event.LOAD): VersionState.READY,
    (VersionState.LOADING, Event.LOADED): VersionState.READY,
    (VersionState.READY, Event.LOADED): VersionState.READY,
    (VersionState.LOADING, Event.FAILED): VersionState.UNAVAILABLE,
    (VersionState.READY, Event.FAILED): VersionState.READY,
    (VersionState.LOADING, Event.ABANDONED): VersionState.UNLOADING,
    (VersionState.READY, Event.ABANDONED): VersionState.READY,
    (VersionState.READY, Event.UNLOAD): VersionState.UNLOADING,
    (VersionState.UNLOADING, Event.UNLOADED): VersionState.UNAVAILABLE,
    (VersionState.UNAVAILABLE, Event.FORGET): VersionState.UNAVAILABLE,
}
"""State and event → state. What is not here cannot happen."""


class Serving:
    """The copy that answers requests for a version."""

    __slots__ = ("_served", "copy")

    def __init__(self, copy: ModelCopy) -> None:
        self.copy = copy
        self._served = ServedModel(copy.config, copy.version)

    @property
    def served(self) -> ServedModel:
        """What frontends see of it; made anew only when the configuration was updated in place."""
        config = self.copy.config
        if self._served.config is not config:
            self._served = ServedModel(config, self.copy.version)
        return self._served


class ModelVersion:
    """One version of one model. Changed by `ModelRegistry` only."""

    __slots__ = ("earlier", "leaving", "name", "number", "reason", "replaced", "serving", "state")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.state: VersionState | None = None
        self.reason: str | None = None
        self.serving: Serving | None = None
        """There is one exactly while the state is READY."""
        self.leaving: ModelCopy | None = None
        """The copy whose end turns UNLOADING into UNAVAILABLE."""
        self.replaced: list[ModelCopy] = []
        """Copies that reloads replaced and that still finish their requests."""
        self.earlier: ModelStatistics | None = None
        """Counters of replaced copies that are closed."""

    @property
    def copies(self) -> list[ModelCopy]:
        """Every copy that may have requests in flight, except those of unloads before the last one."""
        serving = None if self.serving is None else self.serving.copy
        return [copy for copy in (serving, self.leaving, *self.replaced) if copy is not None]

    @property
    def status(self) -> str:
        """The state and its reason, as the start-up table shows them."""
        state = "" if self.state is None else self.state.value
        return f"{state}: {self.reason}" if self.reason else state

    @property
    def settled(self) -> bool:
        """Whether strict readiness has nothing against this version."""
        return self.state is VersionState.READY or (self.state is VersionState.UNAVAILABLE and self.reason == UNLOADED)

    def advance(self, event: Event, reason: str | None = None) -> bool:
        """Follow the transition table; whether the state changed. `reason` is kept where the version is unavailable."""
        before, self.state = self.state, TRANSITIONS[self.state, event]
        if before is not self.state or event is Event.FORGET:
            self.reason = reason if self.state is VersionState.UNAVAILABLE else None
        return before is not self.state

    def total_of_replaced(self) -> ModelStatistics | None:
        """Counters of every copy that reloads replaced, closed or not; None when there was no reload."""
        if self.earlier is None and not self.replaced:
            return None
        total = ModelStatistics()
        for statistics in (self.earlier, *(copy.statistics for copy in self.replaced)):
            if statistics is not None:
                total.add(statistics)
        return total


class _Versions:
    """The versions of one model, and the largest that is ready: the one that most requests mean."""

    __slots__ = ("by_number", "latest")

    def __init__(self) -> None:
        self.by_number: dict[int, ModelVersion] = {}
        self.latest: ModelVersion | None = None

    def refresh(self) -> None:
        ready = [number for number, version in self.by_number.items() if version.serving is not None]
        self.latest = self.by_number[max(ready)] if ready else None


class ModelRegistry:
    """Every model that was ever read from a repository or a load request. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._models: dict[str, _Versions] = {}
        self._watchers: list[Callable[[str], None]] = []

    def watch(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call `changed` with a model's name whenever `find` may say something else of it. Returns what ends that."""
        self._watchers.append(changed)

        def end() -> None:
            with suppress(ValueError):
                self._watchers.remove(changed)

        return end

    def _tell(self, name: str) -> None:
        for changed in tuple(self._watchers):
            changed(name)

    # --- questions ---

    def find(self, name: str, number: int = ANY_VERSION) -> Serving:
        """What serves a request now. Raises NotFoundError or UnavailableError."""
        versions = self._models.get(name)
        if versions is None:
            raise unknown_model(name)
        version = versions.latest if number == ANY_VERSION else versions.by_number.get(number)
        if version is None:
            raise unknown_version(name, number)
        if version.serving is None:
            raise unready_version(name, number)
        return version.serving

    def versions(self, name: str) -> list[ModelVersion]:
        """Every known version of a model, ascending."""
        versions = self._models.get(name)
        return [] if versions is None else [versions.by_number[number] for number in sorted(versions.by_number)]

    def served(self, name: str) -> dict[int, ServedModel | None] | None:
        """What `find` says of each version of a model, None where nothing serves it; None of an unknown model."""
        if name not in self._models:
            return None
        return {
            version.number: None if version.serving is None else version.serving.served
            for version in self.versions(name)
        }

    def ready(self, name: str) -> dict[int, ModelCopy]:
        """The versions of a model that serve, ascending, with their copies."""
        return {version.number: version.serving.copy for version in self.versions(name) if version.serving is not None}

    def copies(self, name: str) -> list[ModelCopy]:
        """Every copy of a model that may have requests in flight."""
        return [copy for version in self.versions(name) for copy in version.copies]

    def serving(self) -> list[ModelCopy]:
        """The copies of all models that get requests."""
        versions = (version for versions in self._models.values() for version in versions.by_number.values())
        return [version.serving.copy for version in versions if version.serving is not None]

    def names(self) -> list[str]:
        return sorted(self._models)

    def all_settled(self) -> bool:
        """Strict readiness: every version can serve or was unloaded, and every model has one."""
        return all(
            versions.by_number
            and all(
                version.settled and (version.serving is None or version.serving.copy.ready)
                for version in versions.by_number.values()
            )
            for versions in self._models.values()
        )

    def all_alive(self) -> bool:
        """Steady readiness: whatever serves can do so; what loads or failed beside it does not count."""
        return all(copy.ready for copy in self.serving())

    def index(
        self, directories: Mapping[str, int], *, ready: bool = False, complaints: Mapping[str, str] | None = None
    ) -> list[IndexEntry]:
        """
        The repository index. `directories` maps each model to the number of repositories that have it.

        A model without a version is listed with the reason that `complaints` has for it; without one it is listed
        without states until it is first read, and not at all then.
        """
        reasons = complaints or {}
        entries: list[IndexEntry] = []
        for name in sorted(directories):
            if directories[name] > 1:
                entries.append(IndexEntry(name, None, VersionState.UNAVAILABLE.value, DUPLICATE))
            elif name in reasons and not self.versions(name):
                entries.append(IndexEntry(name, None, VersionState.UNAVAILABLE.value, reasons[name]))
            elif name not in self._models:
                entries.append(IndexEntry(name))
            else:
                entries += [
                    IndexEntry(name, version.number, version.state.value, version.reason)
                    for version in self.versions(name)
                    if version.state is not None
                ]
        return [entry for entry in entries if entry.state == VersionState.READY.value] if ready else entries

    def statistics(self, name: str = "", number: int = ANY_VERSION) -> list[VersionStatistics]:
        """Counters of the ready versions. Raises InvalidArgumentError for a model or version that has none."""
        names = [name] if name else self.names()
        found = [
            VersionStatistics(known, version.number, copy.config, copy.statistics, version.total_of_replaced())
            for known in names
            for version in self.versions(known)
            if version.serving is not None
            for copy in (version.serving.copy,)
        ]
        if name and not found:
            raise InvalidArgumentError(f"requested model '{name}' is not available")
        if number == ANY_VERSION:
            return found
        wanted = [one for one in found if one.version == number]
        if not wanted:
            raise InvalidArgumentError(f"requested model version is not available for model '{name}'")
        return wanted

    # --- events ---

    def know(self, name: str) -> None:
        """The model was read from its directory; it may have no versions."""
        if name not in self._models:
            self._models[name] = _Versions()
            self._tell(name)

    def begin_load(self, name: str, numbers: Iterable[int]) -> None:
        """The versions start to load. Those that serve go on."""
        self.know(name)
        by_number = self._models[name].by_number
        for number in numbers:
            by_number.setdefault(number, ModelVersion(name, number)).advance(Event.LOAD)
        self._tell(name)

    def complete_load(self, name: str, copies: Mapping[int, ModelCopy]) -> list[ModelCopy]:
        """The copies of one load take over, all in this instant. Returns the copies that they replace."""
        replaced: list[ModelCopy] = []
        for number, copy in copies.items():
            version = self._models[name].by_number[number]
            version.advance(Event.LOADED)
            if version.serving is not None:
                version.replaced.append(version.serving.copy)
                replaced.append(version.serving.copy)
            version.serving = Serving(copy)
        self._models[name].refresh()
        self._tell(name)
        return replaced

    def keep(self, name: str, numbers: Iterable[int]) -> None:
        """The versions were updated in place: the same copy serves on."""
        for number in numbers:
            self._models[name].by_number[number].advance(Event.LOADED)
        self._tell(name)

    def fail(self, name: str, number: int, error: InferenceError) -> None:
        """The version could not be loaded. Where an older copy serves, nothing is seen of that."""
        self._models[name].by_number[number].advance(Event.FAILED, error.reason)

    def abandon(self, name: str, number: int, copy: ModelCopy) -> None:
        """The copy loaded but is not wanted, because another version of its load failed."""
        version = self._models[name].by_number[number]
        if version.advance(Event.ABANDONED):
            version.leaving = copy

    def begin_unload(self, name: str, number: int) -> ModelCopy:
        """A ready version stops serving, its counters end. Returns its copy, which finishes what is in flight."""
        version = self._models[name].by_number[number]
        serving = version.serving
        if serving is None:
            raise ValueError(f"version {number} of model '{name}' does not serve")
        version.advance(Event.UNLOAD)
        version.serving = None
        version.leaving = serving.copy
        version.replaced.clear()
        version.earlier = None
        self._models[name].refresh()
        self._tell(name)
        return serving.copy

    def closed(self, name: str, number: int, copy: ModelCopy) -> None:
        """A copy that was replaced, abandoned or unloaded is gone."""
        version = self._models[name].by_number[number]
        if copy in version.replaced:
            version.replaced.remove(copy)
            version.earlier = version.earlier or ModelStatistics()
            version.earlier.add(copy.statistics)
        if version.leaving is copy:
            version.leaving = None
            if version.state is VersionState.UNLOADING:
                version.advance(Event.UNLOADED, UNLOADED)

    def forget_failures(self, name: str) -> None:
        """The model's directory is gone: versions that could not be loaded do not count against readiness any more."""
        versions = self._models.get(name)
        if versions is None:
            return
        if not versions.by_number:
            del self._models[name]
            self._tell(name)
            return
        for version in versions.by_number.values():
            if version.state is VersionState.UNAVAILABLE:
                version.advance(Event.FORGET, UNLOADED)
