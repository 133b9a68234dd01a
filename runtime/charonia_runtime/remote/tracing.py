"""Traces in a frontends' process: what a frontend notes is sent to the server, which decides and records."""

from collections.abc import Callable
from typing import Any

from charonia_runtime.core.request import InferenceRequest, Trace

Send = Callable[[int, list[tuple[str, int]]], None]
"""Sends the last notes on the request of a number."""


class RemoteTracing:
    """Implements `core.tracing.Tracing`. `active` is what the server said last."""

    def __init__(self, send: Send) -> None:
        self.active = False
        self._send = send

    def sample(self, model: str, parent: str | None) -> Trace:  # noqa: ARG002 - the request names it, too
        return RemoteTrace(parent, self._send)


class RemoteTrace:
    """Implements `core.request.Trace` for a frontend; of the rest the server has its own."""

    __slots__ = ("_notes", "_parent", "_send", "number")

    def __init__(self, parent: str | None, send: Send) -> None:
        self.number: int | None = None
        """The number of its request; None until that is submitted."""
        self._parent = parent
        self._notes: list[tuple[str, int]] = []
        self._send = send

    def beginning(self) -> dict[str, Any]:
        """What travels with the request."""
        notes, self._notes = self._notes, []
        return {"parent": self._parent, "notes": notes}

    def note(self, name: str, ns: int) -> None:
        self._notes.append((name, ns))

    def end(self) -> None:
        if self.number is not None:
            self._send(self.number, self._notes)

    def follow(self, request: InferenceRequest, *, ensemble: bool) -> None:
        """The server's trace does."""

    def spawn(self, model: str) -> Trace:  # noqa: ARG002 - the server's trace does
        return self

    def context(self) -> str | None:
        """Models are not here."""

    def refused(self) -> None:
        """The server's trace hears of it there."""
