"""The seam to request tracing: who decides which requests are recorded. What is told of one is `core.request.Trace`."""

from typing import Final, Protocol

from charonia_runtime.core.request import Trace


class Tracing(Protocol):
    """Decides which requests are recorded."""

    active: bool
    """Whether any could be: frontends ask for nothing else while it is False."""

    def sample(self, model: str, parent: str | None) -> Trace | None:
        """
        The trace of a new request to `model`; None for most.

        `parent` is the W3C `traceparent` that came with the request, None without.
        """


class _NoTracing:
    """Of servers that record nothing."""

    active = False

    def sample(self, model: str, parent: str | None) -> Trace | None:  # noqa: ARG002 - whatever they are
        return None


NO_TRACING: Final[Tracing] = _NoTracing()
