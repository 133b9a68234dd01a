"""
The log of requests: one line for each request that a frontend answers, or for each that fails.

A line never has tokens, bodies or what follows `?` in a path. What clients wrote is cut, and cannot end a line.
"""

import logging
import time
from typing import Final

from charonia_runtime.core.texts import one_line, one_word
from charonia_runtime.request_advice import advise_on_request

logger = logging.getLogger(__name__)

WANTED: Final = ("off", "errors", "all")
_LONGEST_WORD: Final = 128
_LONGEST_CALL: Final = 256
_LONGEST_ERROR: Final = 512


class RequestLog:
    """
    Writes the lines that are wanted. Frontends look at `active` once for each request, and do nothing else while it is
    False.

    Lines that `--log-requests` asks for are information, and warnings of requests that failed; those that only
    `--log-verbose` asks for are verbose.
    """

    __slots__ = ("_is_verbose", "_wanted", "active")

    def __init__(self) -> None:
        self._wanted = "off"
        self._is_verbose = False
        self.active = False
        """Whether any request could have a line."""

    def want(self, wanted: str) -> None:
        """Tell all requests, those that fail or none, whatever the verbose level; `wanted` is one of `WANTED`."""
        self._wanted = wanted
        self.active = self._is_verbose or wanted != "off"

    def follow(self, *, is_verbose: bool) -> None:
        """Tell every request while the log is verbose. Takes effect with the next request."""
        self._is_verbose = is_verbose
        self.active = is_verbose or self._wanted != "off"

    def write(
        self,
        protocol: str,
        call: str,
        status: int | str,
        began_ns: int,
        *,
        model: str = "",
        received: int = 0,
        sent: int = 0,
        request_id: str = "",
        client: str = "",
        error: str | None = None,
    ) -> None:
        """
        Write the line of a request that is over. `error` is None for one that did not fail.

        `received` and `sent` are bytes of messages, without heads and frames; `began_ns` is when the request was
        complete, on the monotonic clock.
        """
        if error is not None:
            level = logging.DEBUG if self._wanted == "off" else logging.WARNING
        elif self._wanted == "all":
            level = logging.INFO
        elif self._is_verbose:
            level = logging.DEBUG
        else:
            return
        if not logger.isEnabledFor(level):
            return
        took_ms = (time.monotonic_ns() - began_ns) / 1e6
        line = (
            f"{protocol} {one_line(call, _LONGEST_CALL)} model={_word(model)} status={status} in={received} out={sent} "
            f"ms={took_ms:.3f} id={_word(request_id)} client={_word(client)}"
        )
        if error is not None:
            shown = one_line(error, _LONGEST_ERROR)
            line = f"{line} error: {shown}{advise_on_request(shown)}"
        logger.log(level, "%s", line)


def _word(text: str) -> str:
    return one_word(text, _LONGEST_WORD) if text else "-"
