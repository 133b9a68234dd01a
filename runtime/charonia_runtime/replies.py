"""Responses of requests that must have exactly one: what the sinks of single calls have in common."""

from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.request import InferenceResponse


class SingleResponse:
    """
    Keeps a request's one response until the request has ended. A base for sinks, which say what `send` then does.

    A model that sends none or several is at fault, which is only known at the end.
    """

    __slots__ = ("_count", "_response")

    def __init__(self) -> None:
        self._response: InferenceResponse | None = None
        self._count = 0

    def keep(self, response: InferenceResponse) -> bool:
        """Take a response; whether the request has ended with it."""
        if not response.flag_only:
            self._count += 1
            self._response = response
        return response.final

    def take(self) -> InferenceResponse:
        """The one response, which may be an error; call it once. Raises InternalError for any other number of them."""
        response, self._response = self._response, None
        if self._count != 1 or response is None:
            raise InternalError(f"expected a single response, got {self._count}")
        return response
