"""What `execute` returned: checked as Triton checks it, and sent as one message for the whole batch."""

from typing import Any

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.ipc.frames import FrameKind
from charonia_runtime.ipc.messages import ResponseRecord, Status, pack_response
from charonia_runtime.ipc.packing import Packer
from charonia_runtime.stub.context import context
from charonia_runtime.stub.request import RELEASE_RESCHEDULE, InferenceRequest
from charonia_runtime.stub.response import FINAL_FLAG, RESPONSE_FLAG, Exchange, InferenceResponse
from charonia_runtime.stub.session import Session


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


def answer(
    session: Session, number: int, exchanges: list[Exchange], requests: list[InferenceRequest], result: Any
) -> None:
    """Send what `execute` returned for batch `number`."""
    if context.decoupled:
        _answer_decoupled(session, number, exchanges, requests)
        return
    records = [
        _record(exchange, request, response)
        for exchange, request, response in zip(exchanges, requests, result or [None] * len(requests), strict=True)
    ]

    def pack(packer: Packer) -> None:
        for record in records:
            pack_response(packer, record)

    try:
        session.send_packed(FrameKind.ANSWER, pack, entry=len(records), number=number, forward=True)
    except InferenceError as error:
        if len(records) == 1:
            raise
        _answer_each(session, number, records, error)


def _answer_decoupled(
    session: Session, number: int, exchanges: list[Exchange], requests: list[InferenceRequest]
) -> None:
    """Models send their responses themselves; what is left to say is which requests they want to see again."""
    statuses = [
        Status.RESCHEDULE if request.release_flags() == RELEASE_RESCHEDULE and not exchange.closed else Status.NOTHING
        for exchange, request in zip(exchanges, requests, strict=True)
    ]
    if Status.RESCHEDULE not in statuses:
        session.send(FrameKind.ANSWER, number=number)
        return
    for exchange, status in zip(exchanges, statuses, strict=True):
        exchange.closed = exchange.closed or status == Status.RESCHEDULE

    def pack(packer: Packer) -> None:
        for status in statuses:
            pack_response(packer, ResponseRecord(status))

    session.send_packed(FrameKind.ANSWER, pack, entry=len(statuses), number=number)


def _record(exchange: Exchange, request: InferenceRequest, response: InferenceResponse | None) -> ResponseRecord:
    if response is None:
        if request.release_flags() == RELEASE_RESCHEDULE:
            exchange.closed = True
            return ResponseRecord(Status.RESCHEDULE)
        return ResponseRecord(Status.NOTHING)
    record = response.to_record()
    exchange.closed = True
    return record


def _answer_each(session: Session, number: int, records: list[ResponseRecord], error: InferenceError) -> None:
    """There is no memory for all answers together: send each alone, and the error to those that are still too large."""
    for index, record in enumerate(records):
        if record.status not in {Status.OUTPUTS, Status.ERROR}:
            continue
        failed = ResponseRecord(
            Status.ERROR,
            message=f"Failed to process the request(s) for model '{context.instance_name}', message: {error.message}",
        )
        for attempt in (record, failed):
            try:
                session.send_packed(
                    FrameKind.RESPONSE,
                    lambda packer, attempt=attempt: pack_response(packer, attempt),  # type: ignore[misc]
                    entry=index,
                    number=number,
                    flags=FINAL_FLAG | RESPONSE_FLAG,
                )
            except InferenceError:
                continue
            break

    def pack(packer: Packer) -> None:
        for record in records:
            kept = Status.RESCHEDULE if record.status == Status.RESCHEDULE else Status.NOTHING
            pack_response(packer, ResponseRecord(kept))

    session.send_packed(FrameKind.ANSWER, pack, entry=len(records), number=number)
