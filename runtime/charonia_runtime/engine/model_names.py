"""`ModelNames`: which models a name that a client gives may mean. Pure state."""

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.missing_models import ambiguous_model, unidentified_model, unknown_model


class ModelNames:
    """
    The identifiers that belong to each name; a name and its only identifier are the same without namespaces.

    An identifier that was dropped belongs to its name still, but does not make it ambiguous.
    """

    def __init__(self, *, namespacing: bool) -> None:
        """Without `namespacing` nothing is dropped: a name stays the name of its only model."""
        self._namespacing = namespacing
        self._identifiers: dict[str, dict[str, bool]] = {}
        """Name → its identifiers in the order in which they came, each with whether it counts."""

    def add(self, name: str, identifier: str) -> None:
        """The model is there (again)."""
        self._identifiers.setdefault(name, {})[identifier] = True

    def drop(self, name: str, identifier: str) -> bool:
        """The model was unloaded: the name means the others of that name, if there are any. Whether this changes it."""
        if not self._namespacing or identifier not in self.counting(name):
            return False
        self._identifiers[name][identifier] = False
        return True

    def remove(self, name: str, identifier: str) -> None:
        """Forget the model."""
        identifiers = self._identifiers.get(name, {})
        identifiers.pop(identifier, None)
        if not identifiers:
            self._identifiers.pop(name, None)

    def names(self) -> list[str]:
        return sorted(self._identifiers)

    def identifiers(self, name: str) -> tuple[str, ...]:
        """Every identifier of a name, dropped ones too."""
        return tuple(self._identifiers.get(name, ()))

    def meant(self, name: str) -> str | None:
        """The one identifier that a name means; None where `refusal` says why there is none."""
        counting = self.counting(name)
        return counting[0] if len(counting) == 1 else None

    def refusal(self, name: str) -> InferenceError:
        """Why a name means no model: InvalidArgumentError where it is ambiguous, else NotFoundError."""
        counting = self.counting(name)
        if len(counting) > 1:
            return ambiguous_model(name, len(counting))
        return unidentified_model(name) if name in self._identifiers else unknown_model(name)

    def counting(self, name: str) -> list[str]:
        """The identifiers that a name may mean."""
        return [identifier for identifier, counts in self._identifiers.get(name, {}).items() if counts]
