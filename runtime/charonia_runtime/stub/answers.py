"""What `execute` returned: checked as Triton checks it, and sent as one message for the whole batch."""

from functools import partial
from typing import Any

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.ipc.frames import FrameKind
from charonia_runtime.ipc.messages import ResponseRecord, Status, pack_response
from charonia_runtime.ipc.packing import Packer
from charonia_runtime.stub.context import context
from charonia_runtime.stub.request import RELEASE_ALL, RELEASE_RESCHEDULE, InferenceRequest
from charonia_runtime.stub.response import FINAL_FLAG, RESPONSE_FLAG, InferenceResponse
from charonia_runtime.stub.session import Session

_NOTHING = ResponseRecord(Status.NOTHING)
_RESCHEDULE = ResponseRecord(Status.RESCHEDULE)


class WrongResultError(Exception):
    """What a model returned is not what it may return; the message is shown as it is."""


def check_result(result: Any, requests: list[InferenceRequest]) -> None:
    """Raises WrongResultError, with Triton's text, unless `result` is what `execute` may return."""
    if context.decoupled:
        if result is not None:
            raise WrongResultError(
                f"Python model '{context.instance_name}' is using the decoupled mode and the execute function must "
                "return None."
            )
        return
    if result is None:
        return
    if not isinstance(result, list):
        raise WrongResultError(f"Expected a list in the execute return, found type '{type(result)}'.")
    if len(result) != len(requests):
        raise WrongResultError(
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            f"InferenceRequest(s) size is:{len(requests)}, and InferenceResponse(s) size is:{len(result)}\n"
        )
    for request, response in zip(requests, result, strict=True):
        if type(response) is InferenceResponse and request.release_flags() == RELEASE_ALL:
            continue
        if request.release_flags() == RELEASE_RESCHEDULE:
            if response is not None:
                raise WrongResultError(
                    "Expected a None object in the execute function return list for reschduled request, found type "
                    f"'{type(response)}'."
                )
        elif response is not None and not isinstance(response, InferenceResponse):
            raise WrongResultError(
                "Expected an 'InferenceResponse' object in the execute function return list, found type "
                f"'{type(response)}'."
            )


def answer(session: Session, number: int, requests: list[InferenceRequest], result: Any, times: bytes) -> None:
    """Send what `execute` returned for batch `number`, and the `times` that it took."""
    if context.decoupled:
        _answer_decoupled(session, number, requests, times)
        return
    responses = result or [None] * len(requests)

    def pack(packer: Packer) -> None:
        for request, response in zip(requests, responses, strict=True):
            if response is None:
                pack_response(packer, _NOTHING if request.release_flags() == RELEASE_ALL else _RESCHEDULE)
            else:
                response.pack(packer)
        packer.add_data(times)

    try:
        session.send_packed(FrameKind.ANSWER, pack, entry=len(requests), number=number, forward=True)
    except InferenceError as error:
        if len(requests) == 1:
            raise
        _answer_each(session, number, requests, responses, error)
    for request, response in zip(requests, responses, strict=True):
        if response is not None or request.release_flags() == RELEASE_RESCHEDULE:
            request.close()
        else:
            request.exchange()  # it tells the server if the request is forgotten without an answer


def _answer_decoupled(session: Session, number: int, requests: list[InferenceRequest], times: bytes) -> None:
    """Models send their responses themselves; what is left to say is which requests they want to see again."""
    statuses = [
        _RESCHEDULE if request.release_flags() == RELEASE_RESCHEDULE and not request.closed else _NOTHING
        for request in requests
    ]
    for request, status in zip(requests, statuses, strict=True):
        if status is _RESCHEDULE:
            request.close()
    if _RESCHEDULE not in statuses:
        statuses = []
    _send_statuses(session, number, statuses, times)


def _send_statuses(session: Session, number: int, statuses: list[ResponseRecord], times: bytes = b"") -> None:
    def pack(packer: Packer) -> None:
        for status in statuses:
            pack_response(packer, status)
        packer.add_data(times)

    session.send_packed(FrameKind.ANSWER, pack, entry=len(statuses), number=number)


def _answer_each(
    session: Session,
    number: int,
    requests: list[InferenceRequest],
    responses: list[InferenceResponse | None],
    error: InferenceError,
) -> None:
    """There is no memory for all answers together: send each alone, and the error to those that are still too large."""
    text = f"Failed to process the request(s) for model '{context.instance_name}', message: {error.message}"
    failed = ResponseRecord(Status.ERROR, message=text)
    for index, response in enumerate(responses):
        if response is None:
            continue
        for pack in (response.pack, partial(pack_response, response=failed)):
            try:
                session.send_packed(
                    FrameKind.RESPONSE, pack, entry=index, number=number, flags=FINAL_FLAG | RESPONSE_FLAG
                )
            except InferenceError:
                continue
            break
    _send_statuses(
        session,
        number,
        [_RESCHEDULE if request.release_flags() == RELEASE_RESCHEDULE else _NOTHING for request in requests],
    )
