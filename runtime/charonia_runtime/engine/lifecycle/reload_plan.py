"""What a load changes: which versions get a new copy, which keep theirs, which go. Pure rules, no files."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.engine.lifecycle.reading import PolledModel
from charonia_runtime.engine.lifecycle.repository import Stamp

_IN_PLACE = {"instance_group", "version_policy"}
"""Fields that change without loading a version anew."""


@dataclass(frozen=True, slots=True)
class ReloadPlan:
    """Versions by what happens to them, each ascending. `create` and `update` together are the selected ones."""

    create: tuple[int, ...]
    """A new copy, which replaces the one that serves, if any."""
    update: tuple[int, ...]
    """The copy that serves stays; its instances follow the configuration."""
    drop: tuple[int, ...]
    """Serves, but is no longer selected."""


def is_modified(polled: PolledModel, current: PolledModel) -> bool:
    """Whether there is anything to do for a model that serves what `current` said."""
    return (
        polled.overridden
        or polled.entry.directory != current.entry.directory
        or polled.entry.config_path != current.entry.config_path
        or polled.entry.modifications.differ_from(current.entry.modifications)
        or _means_others(polled.config, current.config)
    )


def plan_reload(polled: PolledModel, current: PolledModel | None, serving: Collection[int]) -> ReloadPlan:
    """How to get from what serves, loaded from `current`, to `polled`."""
    anew = current is None or _needs_full_reload(polled, current)
    create: list[int] = []
    update: list[int] = []
    for version in polled.versions:
        changed = anew or current is None or _stamp(polled, version).differs_from(_stamp(current, version))
        (create if changed or version not in serving else update).append(version)
    dropped = sorted(set(serving) - set(polled.versions))
    return ReloadPlan(tuple(create), tuple(update), tuple(dropped))


def _means_others(config: ModelConfig, before: ModelConfig) -> bool:
    """Whether a step of an ensemble means another repository's model than before: one came or went."""
    namespaces, earlier = _namespaces(config), _namespaces(before)
    return any(earlier[name] != namespaces[name] for name in namespaces.keys() & earlier.keys())


def _namespaces(config: ModelConfig) -> dict[str, str]:
    steps = config.scheduling.steps if isinstance(config.scheduling, Ensemble) else ()
    return {step.model_name: step.model_namespace for step in steps}


def _needs_full_reload(polled: PolledModel, current: PolledModel) -> bool:
    before, after = current.entry, polled.entry
    return (
        after.directory != before.directory
        or after.modifications.others.differs_from(before.modifications.others)
        or _substance(polled.config) != _substance(current.config)
    )


def _substance(config: ModelConfig) -> dict[str, Any]:
    return {field: value for field, value in config.document.items() if field not in _IN_PLACE}


def _stamp(polled: PolledModel, version: int) -> Stamp:
    return polled.entry.modifications.versions.get(version, Stamp())
