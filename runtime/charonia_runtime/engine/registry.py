"""
Which versions of which models there are, in which state, and which copy serves each: Triton's model life cycle.

Pure state, without I/O, tasks or clocks: `engine.lifecycle` says what happened, a table in `engine.model_versions` says
what follows. A version that serves goes on serving until its replacement is there; there is no moment between the two.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from charonia_runtime.core.errors import InferenceError, InvalidArgumentError
from charonia_runtime.core.missing_models import unknown_version, unready_version
from charonia_runtime.core.request import ANY_VERSION
from charonia_runtime.core.server import IndexEntry, ServedModel, VersionStatistics
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.engine.execution.copies import ModelCopy
from charonia_runtime.engine.model_names import ModelNames
from charonia_runtime.engine.model_versions import UNLOADED, Event, ModelVersion, Serving, VersionState

DUPLICATE = "model appears in two or more repositories"


class _Versions:
    """The versions of one model, and the largest that is ready: the one that most requests mean."""

    __slots__ = ("by_number", "latest", "name", "namespace")

    def __init__(self, name: str, namespace: str) -> None:
        self.name = name
        self.namespace = namespace
        self.by_number: dict[int, ModelVersion] = {}
        self.latest: ModelVersion | None = None

    def refresh(self) -> None:
        ready = [number for number, version in self.by_number.items() if version.serving is not None]
        self.latest = self.by_number[max(ready)] if ready else None


class ModelRegistry:
    """
    Every model that was ever read from a repository or a load request. Belongs to the event loop's thread.

    Models are known by their identifiers (`core.identifiers`). Clients give names, which are the same unless
    repositories may share them (`namespacing`).
    """

    def __init__(self, *, namespacing: bool = False) -> None:
        self._models: dict[str, _Versions] = {}
        """By identifier."""
        self._meant: dict[str, _Versions] = {}
        """By the names that clients give; ambiguous ones are absent."""
        self._names = ModelNames(namespacing=namespacing)
        self._watchers: list[Callable[[str], None]] = []

    def watch(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call `changed` with a model's name whenever `find` may say something else of it. Returns what ends that."""
        self._watchers.append(changed)

        def end() -> None:
            with suppress(ValueError):
                self._watchers.remove(changed)

        return end

    def _tell(self, identifier: str) -> None:
        self._tell_name(self._models[identifier].name)

    def _tell_name(self, name: str) -> None:
        for changed in tuple(self._watchers):
            changed(name)

    def _mean(self, name: str) -> None:
        """Find out anew which model a name means."""
        identifier = self._names.meant(name)
        if identifier is None:
            self._meant.pop(name, None)
        else:
            self._meant[name] = self._models[identifier]
        self._tell_name(name)

    # --- questions ---

    def find(self, name: str, number: int = ANY_VERSION) -> Serving:
        """What serves a request of a client now. Raises NotFoundError, UnavailableError or InvalidArgumentError."""
        versions = self._meant.get(name)
        if versions is None:
            raise self._names.refusal(name)
        version = versions.latest if number == ANY_VERSION else versions.by_number.get(number)
        if version is None:
            raise unknown_version(name, number)
        if version.serving is None:
            raise unready_version(name, number)
        return version.serving

    def identifier(self, name: str) -> str:
        """The model that a client's `name` means. Raises NotFoundError, or InvalidArgumentError where several do."""
        identifier = self._names.meant(name)
        if identifier is None:
            raise self._names.refusal(name)
        return identifier

    def named(self, name: str) -> tuple[str, ...]:
        """Every model that has the name, unloaded ones too."""
        return self._names.identifiers(name)

    def versions(self, identifier: str) -> list[ModelVersion]:
        """Every known version of a model, ascending."""
        versions = self._models.get(identifier)
        return [] if versions is None else [versions.by_number[number] for number in sorted(versions.by_number)]

    def served(self, name: str) -> dict[int, ServedModel | None] | None:
        """
        What `find` says of each version of a model, None where nothing serves it; None of an unknown model.

        Raises what `identifier` raises of a name that is known.
        """
        if not self._names.identifiers(name):
            return None
        return {
            version.number: None if version.serving is None else version.serving.served
            for version in self.versions(self.identifier(name))
        }

    def ready(self, identifier: str) -> dict[int, ModelCopy]:
        """The versions of a model that serve, ascending, with their copies."""
        return {
            version.number: version.serving.copy for version in self.versions(identifier) if version.serving is not None
        }

    def copies(self, name: str) -> list[ModelCopy]:
        """Every copy of the models of this name that may have requests in flight."""
        return [
            copy
            for identifier in self._names.identifiers(name)
            for version in self.versions(identifier)
            for copy in version.copies
        ]

    def serving(self) -> list[ModelCopy]:
        """The copies of all models that get requests."""
        versions = (version for versions in self._models.values() for version in versions.by_number.values())
        return [version.serving.copy for version in versions if version.serving is not None]

    def names(self) -> list[str]:
        """The names that clients may give, sorted."""
        return self._names.names()

    def identifiers(self) -> list[str]:
        """Every model, by namespace and name."""
        order = sorted((versions.namespace, versions.name, identifier) for identifier, versions in self._models.items())
        return [identifier for *_, identifier in order]

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
        The repository index, in the order of `directories`: each model → the number of repositories that have it.

        A model without a version is listed with the reason that `complaints` has for it; without one it is listed
        without states until it is first read, and not at all then.
        """
        reasons = complaints or {}
        entries: list[IndexEntry] = []
        for name, count in directories.items():
            if count > 1:
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
        meant = self._names.meant(name)
        wanted = ([] if meant is None else [meant]) if name else self.identifiers()
        found = [
            VersionStatistics(
                model.name, version.number, copy.config, copy.statistics, version.total_of_replaced(), model.namespace
            )
            for identifier in wanted
            for model in (self._models[identifier],)
            for version in self.versions(identifier)
            if version.serving is not None
            for copy in (version.serving.copy,)
        ]
        if name and not found:
            raise InvalidArgumentError(f"requested model '{name}' is not available")
        if number == ANY_VERSION:
            return found
        of_number = [one for one in found if one.version == number]
        if not of_number:
            raise InvalidArgumentError(f"requested model version is not available for model '{name}'")
        return of_number

    # --- events ---

    def know(self, identifier: str, name: str | None = None, namespace: str = "") -> None:
        """The model was read from its directory; it may have no versions. `name` is what clients call it."""
        versions = self._models.get(identifier)
        if versions is None:
            versions = self._models[identifier] = _Versions(identifier if name is None else name, namespace)
        elif identifier in self._names.counting(versions.name):
            return
        self._names.add(versions.name, identifier)
        self._mean(versions.name)

    def drop(self, identifier: str) -> None:
        """The model was unloaded; a name that it shares with others means those."""
        versions = self._models.get(identifier)
        if versions is not None and self._names.drop(versions.name, identifier):
            self._mean(versions.name)

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

    def forget_failures(self, identifier: str) -> None:
        """The model's directory is gone: versions that could not be loaded do not count against readiness any more."""
        versions = self._models.get(identifier)
        if versions is None:
            return
        if not versions.by_number:
            del self._models[identifier]
            self._names.remove(versions.name, identifier)
            self._mean(versions.name)
            return
        for version in versions.by_number.values():
            if version.state is VersionState.UNAVAILABLE:
                version.advance(Event.FORGET, UNLOADED)
