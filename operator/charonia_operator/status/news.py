"""What is worth an Event: a service needs somebody, begins to serve, stops, or has taken a change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from charonia_operator.reasons import Reason
from charonia_operator.status.condition import condition_of

_LONGEST_TEXT = 1000
_ON_PURPOSE = {Reason.SUSPENDED, Reason.SCALED_TO_ZERO}


@dataclass(frozen=True, slots=True)
class News:
    """An Event to record."""

    warning: bool
    reason: str
    message: str
    """At most 1,000 characters; what is too long is cut at its end."""


def news(before: Mapping[str, Any], after: Mapping[str, Any]) -> News | None:
    """Compare two statuses. At most one Event comes of it: that of the worst change."""
    ready, was_ready = condition_of(after, "Ready"), condition_of(before, "Ready")
    stalled, was_stalled = condition_of(after, "Stalled"), condition_of(before, "Stalled")
    sticks, stuck = stalled.get("status") == "True", was_stalled.get("status") == "True"
    serves, served = ready.get("status") == "True", was_ready.get("status") == "True"
    if sticks and (not stuck or stalled["reason"] != was_stalled["reason"]):
        return _told(stalled, warning=True)
    if served and not serves:
        return _told(ready, warning=ready["reason"] not in _ON_PURPOSE)
    if serves and not served:
        return _told(ready, warning=False)
    rolling = condition_of(before, "Reconciling").get("reason") == Reason.ROLLING_UPDATE
    if serves and not sticks and rolling and condition_of(after, "Reconciling").get("status") == "False":
        return News(warning=False, reason=Reason.UP_TO_DATE, message=ready["message"])
    return None


def is_well(status: Mapping[str, Any]) -> bool:
    """Whether a status tells of a service that serves and needs nobody."""
    ready, stalled = condition_of(status, "Ready"), condition_of(status, "Stalled")
    return ready.get("status") == "True" and stalled.get("status") != "True"


def _told(condition: Mapping[str, Any], *, warning: bool) -> News:
    text = condition["message"] or condition["reason"]
    if len(text) > _LONGEST_TEXT:
        text = f"{text[: _LONGEST_TEXT - 2]} …"
    return News(warning, condition["reason"], text)
