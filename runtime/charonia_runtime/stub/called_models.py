"""Business logic scripting: running other models of the server from within a model, and loading and unloading them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.tensor import Tensor as WireTensor
from charonia_runtime.ipc.frames import Frame, FrameKind
from charonia_runtime.ipc.messages import RequestRecord, pack_request
from charonia_runtime.ipc.packing import Packer
from charonia_runtime.stub.arguments import text
from charonia_runtime.stub.context import Phase, context
from charonia_runtime.stub.exceptions import TritonModelException
from charonia_runtime.stub.response import FINAL_FLAG, RESPONSE_FLAG, InferenceResponse
from charonia_runtime.stub.session import Mailbox, Session

DECOUPLED_FLAG = 1
ReadInputs = Callable[[], list[WireTensor]]


class ResponseIterator:
    """
    The responses of a called model, as they arrive.

    Iterating again goes on where it was left, and begins with the stored responses once all of them are there.
    """

    def __init__(self, session: Session, number: int, mailbox: Mailbox) -> None:
        self._session = session
        self._number = number
        self._mailbox = mailbox
        self._responses: list[InferenceResponse] = []
        self._ended = False
        self._next = 0

    def __iter__(self) -> Iterator[InferenceResponse]:
        if self._ended:
            self._next = 0
        return self

    def __next__(self) -> InferenceResponse:
        if self._next == len(self._responses):
            if self._ended:
                raise StopIteration
            frame = self._session.wait(self._mailbox)
            self._ended = bool(frame.flags & FINAL_FLAG)
            self._responses.append(_response(self._session, frame))
            if self._ended:
                self._session.close_mailbox(self._number)
        self._next += 1
        return self._responses[self._next - 1]

    def cancel(self) -> None:
        """Tell the called model that nobody wants its responses any more; they still end."""
        if not self._ended:
            self._session.send(FrameKind.CANCEL, number=self._number)

    def __del__(self) -> None:
        if not self._ended and self._session.alive:
            self._session.close_mailbox(self._number)
            self.cancel()


def execute(record: RequestRecord, inputs: ReadInputs, *, decoupled: bool) -> InferenceResponse | ResponseIterator:
    """Run a request on another model and wait for its answer; for its end the iterator waits."""
    session = _callable_session()
    number, mailbox = _submit(session, record, inputs, decoupled=decoupled)
    if decoupled:
        return ResponseIterator(session, number, mailbox)
    try:
        return _response(session, session.wait(mailbox))
    finally:
        session.close_mailbox(number)


def execute_async(
    record: RequestRecord, inputs: ReadInputs, *, decoupled: bool
) -> Awaitable[InferenceResponse | ResponseIterator]:
    """
    `execute` for coroutines: the request leaves at once, the answer is awaited; for an iterator its first response is.

    Iterating waits for the later responses in the coroutine's thread, as in Triton.
    """
    loop = asyncio.get_running_loop()
    session = _callable_session()
    answer: asyncio.Future[InferenceResponse | ResponseIterator] = loop.create_future()
    number, mailbox = _submit(session, record, inputs, decoupled=decoupled)
    responses = ResponseIterator(session, number, mailbox) if decoupled else None

    def arrived() -> None:
        mailbox.wake = None
        if responses is None:
            session.close_mailbox(number)
        if not answer.done():
            answer.set_result(responses or _response(session, mailbox.frames.popleft()))

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody awaits the answer any more
            loop.call_soon_threadsafe(arrived)

    def settled(_: object) -> None:
        if answer.cancelled():
            mailbox.wake = None
            session.close_mailbox(number)
            session.send(FrameKind.CANCEL, number=number)

    answer.add_done_callback(settled)
    session.watch(mailbox, wake)
    return answer


def _callable_session() -> Session:
    if context.phase is not Phase.EXECUTE:
        raise TritonModelException("BLS is only supported during the 'execute' function.")
    return context.session


def _submit(session: Session, record: RequestRecord, inputs: ReadInputs, *, decoupled: bool) -> tuple[int, Mailbox]:
    number, mailbox = session.open_mailbox()

    def pack(packer: Packer) -> None:
        record.inputs = inputs()
        pack_request(packer, record)

    try:
        session.send_packed(FrameKind.SUBMIT, pack, number=number, flags=DECOUPLED_FLAG if decoupled else 0)
    except InferenceError as error:
        session.close_mailbox(number)
        raise TritonModelException(error.message) from None
    return number, mailbox


def _response(session: Session, frame: Frame) -> InferenceResponse:
    if not frame.flags & RESPONSE_FLAG:
        return InferenceResponse()
    return InferenceResponse.from_record(session.response(frame))


# --- model control ---


def load_model(model_name: str | bytes, config: str | bytes = "", files: Mapping[str, bytes] | None = None) -> None:
    """Load or reload a model, from `config` (JSON) and `files` (`file:<path>` → content) where they are given."""
    if files is not None and not (
        isinstance(files, dict) and all(isinstance(key, str) and isinstance(files[key], bytes) for key in files)
    ):
        raise TritonModelException(
            f"failed to load model '{text(model_name)}', files should be a dictionary of file paths and file contents"
        )
    contents = [
        WireTensor(path, DataType.UINT8, (len(raw),), np.frombuffer(raw, np.uint8).data if raw else memoryview(b""))
        for path, raw in (files or {}).items()
    ]
    arguments = {"name": text(model_name), "config": text(config)}
    _control("Failed to load model", "load_model", arguments, contents)


def unload_model(model_name: str | bytes, unload_dependents: bool = False) -> None:
    """Stop serving a model, and with `unload_dependents` the models that its ensemble is made of."""
    arguments = {"name": text(model_name), "unload_dependents": bool(unload_dependents)}
    _control("Failed to unload model", "unload_model", arguments)


def is_model_ready(model_name: str | bytes, model_version: str | bytes | int = "") -> bool:
    """Whether a version of a model, or any when none is given, can take requests."""
    version = str(model_version) if isinstance(model_version, int) else text(model_version)
    arguments = {"name": text(model_name), "version": version}
    return bool(_control("Failed to check model readiness", "is_model_ready", arguments))


def _control(what: str, name: str, arguments: Mapping[str, Any], files: list[WireTensor] | None = None) -> Any:
    if context.phase in {Phase.AUTO_COMPLETE, Phase.FINALIZE}:
        raise TritonModelException(f"{what}: model control is not available in '{context.phase.value}'.")
    try:
        return context.session.call(name, arguments, files or ())
    except InferenceError as error:
        raise TritonModelException(
            f"{what}: Failed to process the request for model '{context.instance_name}', message: {error.message}"
        ) from None
