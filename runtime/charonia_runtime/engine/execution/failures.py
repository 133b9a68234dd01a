"""Log records of executions that fail by the fault of a model or its backend, as Triton writes them."""

import logging
from collections.abc import Iterable

from charonia_runtime.core.batch import Answers
from charonia_runtime.core.errors import ErrorCode, InferenceError
from charonia_runtime.core.texts import one_word
from charonia_runtime.engine.error_advice import advise_on_error

logger = logging.getLogger(__name__)

_FAULTS_OF_OTHERS = {ErrorCode.INVALID_ARGUMENT, ErrorCode.CANCELLED, ErrorCode.UNAVAILABLE}
"""Errors that a client, or the state of the server, brings about."""
_MOST_IDS = 8
_LONGEST_ID = 64
_MOST_CHARACTERS = 1 << 14
_MOST_RECORDS = 5
_WINDOW_NS = 1_000_000_000
WINDOW_SECONDS = 1.0


class FailureLog:
    """
    Tells of the failures of one version of a model: at most `_MOST_RECORDS` a second, and how many more there were.

    Times are the monotonic clock's.
    """

    __slots__ = ("_model", "_records", "_since_ns", "_untold")

    def __init__(self) -> None:
        self._model = ""
        """Name and version, for the count."""
        self._since_ns = 0
        self._records = 0
        """How many were written since `_since_ns`."""
        self._untold = 0

    def write(self, failures: Answers, now_ns: int) -> bool:
        """
        Write one ERROR for each error among `failures`: model, version, the requests' ids, and what the model raised.

        Returns whether `write_count` is to be called `WINDOW_SECONDS` later.
        """
        if now_ns - self._since_ns >= _WINDOW_NS:
            self._since_ns, self._records = now_ns, 0
        had_untold = bool(self._untold)
        for error, answers in _by_error(failures):
            response = answers[0][1]
            self._model = f"model '{response.model_name}' version {response.model_version}"
            if self._records >= _MOST_RECORDS:
                self._untold += len(answers)
                continue
            self._records += 1
            logger.error("%s, %s: %s", self._model, _request_ids(answers), describe_failure(error))
        return bool(self._untold) and not had_untold

    def write_count(self) -> None:
        """Write how many requests failed that no record tells of."""
        untold, self._untold = self._untold, 0
        logger.error("%s: %d more requests failed within a second", self._model, untold)


def _by_error(failures: Answers) -> Iterable[tuple[InferenceError, Answers]]:
    """The errors that are the fault of a model or its backend, each with what it answers."""
    groups: dict[int, tuple[InferenceError, Answers]] = {}
    for request, response in failures:
        if response.error is not None and response.error.code not in _FAULTS_OF_OTHERS:
            groups.setdefault(id(response.error), (response.error, []))[1].append((request, response))
    return groups.values()


def describe_failure(error: InferenceError) -> str:
    """The error's message with what to do about it and the traceback, where there are such."""
    message = error.message[:_MOST_CHARACTERS]
    message += advise_on_error(message)
    if not error.traceback_text:
        return message
    return f"{message}\n{error.traceback_text[-_MOST_CHARACTERS:]}"


def _request_ids(answers: Answers) -> str:
    ids = [f"'{one_word(request.id, _LONGEST_ID)}'" if request.id else "without id" for request, _ in answers]
    noun = "request" if len(ids) == 1 else "requests"
    more = f" and {len(ids) - _MOST_IDS} more" if len(ids) > _MOST_IDS else ""
    return f"{noun} {', '.join(ids[:_MOST_IDS])}{more}"
