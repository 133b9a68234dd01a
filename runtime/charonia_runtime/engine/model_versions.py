"""
One version of a model and its states: Triton's life cycle as a table.

Pure state, without I/O, tasks or clocks. `engine.registry` holds the versions of all models and changes them.
"""

from collections.abc import Mapping
from enum import Enum, auto

from charonia_runtime.core.server import ServedModel
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.engine.execution.copies import ModelCopy

UNLOADED = "unloaded"
"""The reason of versions that are unavailable because somebody wanted it so."""


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
