"""The models of a service: what its pods tell, put together."""

from collections.abc import Iterable
from dataclasses import dataclass

from charonia_operator.naming import JSON
from charonia_operator.observation import ModelState, PodModels

_LISTED = 512
_WORSE = {"Ready": 0, "Loading": 1, "Unloading": 2, "Unavailable": 3}


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """Each version of each model once, in its worst state."""

    models: tuple[tuple[ModelState, int], ...]
    """A version, and how many pods have it in that state."""

    @property
    def total(self) -> int:
        """How many versions of models there are."""
        return len(self.models)

    @property
    def ready(self) -> int:
        """How many are ready on every pod that was asked."""
        return sum(model.state == "Ready" for model, _ in self.models)

    @property
    def failed(self) -> list[ModelState]:
        """Those that do not load."""
        return [model for model, _ in self.models if model.state == "Unavailable"]

    def rendered(self) -> JSON:
        """The fields of the status."""
        if not self.models:
            return {}
        found: JSON = {
            "modelsReady": f"{self.ready}/{self.total}",
            "models": [_rendered(model, pods) for model, pods in self.models[:_LISTED]],
        }
        if self.total > _LISTED:
            found["modelsOmitted"] = self.total - _LISTED
        return found


def summarize(reports: Iterable[PodModels]) -> ModelSummary:
    """Put what pods tell together."""
    states: dict[tuple[str, str], list[ModelState]] = {}
    for report in reports:
        for model in report.models:
            states.setdefault((model.name, model.version), []).append(model)
    worst = [max(states[key], key=lambda model: _WORSE[model.state]) for key in sorted(states)]
    return ModelSummary(
        tuple((model, sum(each.state == model.state for each in states[model.name, model.version])) for model in worst)
    )


def _rendered(model: ModelState, pods: int) -> JSON:
    entry: JSON = {"name": model.name, "version": model.version, "state": model.state, "pods": pods}
    return entry | ({"reason": model.reason[:2000]} if model.reason else {})
