"""Waiting for what a cluster does in its own time."""

import time
from collections.abc import Callable
from typing import Any

_PAUSE_SECONDS = 0.3


def eventually(look: Callable[[], Any], seconds: float, what: str = "") -> Any:
    """What `look` gives as soon as that is true; it may raise meanwhile."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = look()
            problem = f"last seen: {found!r}"
        except Exception as error:  # noqa: BLE001 - told when the time is over
            found, problem = None, repr(error)
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what or 'it'} did not happen within {seconds:g} s; {problem}")
        time.sleep(_PAUSE_SECONDS)
