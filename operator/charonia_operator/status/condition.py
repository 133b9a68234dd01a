"""`Condition`: one condition of an InferenceService, and how the API server has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from charonia_operator.naming import JSON

_LONGEST_MESSAGE = 4000


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition without its times."""

    type: str
    status: str
    reason: str
    message: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is True."""
        return self.status == "True"


def rendered(
    wanted: Sequence[Condition], previous: Sequence[Mapping[str, Any]], generation: int, now: str
) -> list[JSON]:
    """As the API server has conditions. The time of a transition stays as long as the status does."""
    before = {each["type"]: each for each in previous}
    return [
        {
            "type": each.type,
            "status": each.status,
            "observedGeneration": generation,
            "lastTransitionTime": before[each.type]["lastTransitionTime"]
            if each.type in before and before[each.type]["status"] == each.status
            else now,
            "reason": str(each.reason),
            "message": each.message[:_LONGEST_MESSAGE],
        }
        for each in wanted
    ]


def condition_of(status: Mapping[str, Any], wanted: str) -> JSON:
    """A condition of a status, empty where there is none."""
    return next((each for each in status.get("conditions") or [] if each["type"] == wanted), {})
