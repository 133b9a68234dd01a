"""Which ensembles are made of which models, and which models somebody asked for by name. Pure state."""

from collections.abc import Iterable, Mapping, Sequence

from charonia_runtime.core.errors import InvalidArgumentError


class CircularDependencyError(InvalidArgumentError):
    """An ensemble is made of itself. `circle` is the text without the name of the model that was to be loaded."""

    def __init__(self, name: str, circle: str) -> None:
        super().__init__(f"load failed for model '{name}': {circle}\n")
        self.circle = circle


class Dependencies:
    """Knows every ensemble that was read and not unloaded since, even one that could not be loaded."""

    def __init__(self) -> None:
        self._composing: dict[str, tuple[str, ...]] = {}
        self._asked_for: set[str] = set()

    def know(self, ensemble: str, composing: Iterable[str]) -> None:
        """The ensemble is made of these models; none, where it is no ensemble (any more)."""
        models = tuple(composing)
        if models:
            self._composing[ensemble] = models
        else:
            self._composing.pop(ensemble, None)

    def ask_for(self, name: str) -> None:
        """Somebody wants this model itself, not only an ensemble that needs it."""
        self._asked_for.add(name)

    def forget(self, name: str) -> tuple[str, ...]:
        """Nobody wants the model any more. Returns the models that it was made of and that nothing else needs."""
        self._asked_for.discard(name)
        composing = self._composing.pop(name, ())
        return tuple(model for model in composing if model not in self._asked_for and not self.dependents(model))

    def dependents(self, name: str) -> tuple[str, ...]:
        """The ensembles that have a step of this model."""
        return tuple(ensemble for ensemble, models in self._composing.items() if name in models)


def find_circle(composing: Mapping[str, Sequence[str]], name: str) -> str | None:
    """The model from which `name` is reached again when its steps are followed; None when it is not."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        model = waiting.pop()
        for needed in composing.get(model, ()):
            if needed == name:
                return model
            if needed not in seen:
                seen.add(needed)
                waiting.append(needed)
    return None
