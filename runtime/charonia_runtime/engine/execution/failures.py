"""Log records of executions that fail by the fault of a model or its backend, as Triton writes them."""

import logging

from charonia_runtime.core.batch import Answers
from charonia_runtime.core.errors import ErrorCode, InferenceError
from charonia_runtime.engine.error_advice import advise_on_error

logger = logging.getLogger(__name__)

_FAULTS_OF_OTHERS = {ErrorCode.INVALID_ARGUMENT, ErrorCode.CANCELLED, ErrorCode.UNAVAILABLE}
"""Errors that a client, or the state of the server, brings about."""
_MOST_IDS = 8
_MOST_CHARACTERS = 1 << 14


def log_failures(failures: Answers) -> None:
    """Write one ERROR for each error among `failures`: model, version, the requests' ids, and what the model raised."""
    groups: dict[int, tuple[InferenceError, Answers]] = {}
    for request, response in failures:
        if response.error is not None and response.error.code not in _FAULTS_OF_OTHERS:
            groups.setdefault(id(response.error), (response.error, []))[1].append((request, response))
    for error, answers in groups.values():
        response = answers[0][1]
        logger.error(
            "model '%s' version %d, %s: %s",
            response.model_name, response.model_version, _request_ids(answers), describe_failure(error),
        )  # fmt: skip


def describe_failure(error: InferenceError) -> str:
    """The error's message with what to do about it and the traceback, where there are such."""
    message = error.message[:_MOST_CHARACTERS]
    message += advise_on_error(message)
    if not error.traceback_text:
        return message
    return f"{message}\n{error.traceback_text[-_MOST_CHARACTERS:]}"


def _request_ids(answers: Answers) -> str:
    ids = [f"'{request.id}'" if request.id else "without id" for request, _ in answers]
    noun = "request" if len(ids) == 1 else "requests"
    more = f" and {len(ids) - _MOST_IDS} more" if len(ids) > _MOST_IDS else ""
    return f"{noun} {', '.join(ids[:_MOST_IDS])}{more}"
