"""Calls that the log of requests tells of."""

import time
from collections.abc import Callable
from typing import Final

from charonia_runtime.frontends.v2_grpc.calls import Buffer, Call, Listener, Parts
from charonia_runtime.frontends.v2_grpc.metadata import Metadata
from charonia_runtime.frontends.v2_grpc.status import OK, Status, StatusCode
from charonia_runtime.protocols.v2_proto.first_fields import read_first_texts
from charonia_runtime.request_log import RequestLog

PROTOCOL: Final = "gRPC"
CANCELLED: Final = Status(StatusCode.CANCELLED, "the client cancelled, or went away")
TOO_SLOW: Final = Status(StatusCode.RESOURCE_EXHAUSTED, "the client was cut off: it takes too little of its answers")
_START_BYTES: Final = 1024
"""What is kept of a message, to find names in."""
_MODEL_FIELDS: Final = {
    "ModelInfer": 1, "ModelReady": 1, "ModelMetadata": 1, "ModelConfig": 1, "ModelStatistics": 1,
    "RepositoryModelLoad": 2, "RepositoryModelUnload": 2,
}  # fmt: skip
"""Call → the field of its request that names the model."""
_ID_FIELDS: Final = {"ModelInfer": 3}

Open = Callable[[Call], Listener | None]


class LoggedCall:
    """
    A call whose line is written when it ends.

    It stands between the transport and the listener, for both sides: calls that are not told do without it.
    """

    __slots__ = (
        "_began_ns", "_call", "_is_over", "_listener", "_log", "_name", "_received_bytes", "_sent_bytes", "_start",
        "client",
    )  # fmt: skip

    def __init__(self, log: RequestLog, name: str, call: Call) -> None:
        self._log = log
        self._name = name
        self._call = call
        self.client = call.client
        self._began_ns = time.monotonic_ns()
        self._listener: Listener | None = None
        self._start = b""
        self._received_bytes = 0
        self._sent_bytes = 0
        self._is_over = False

    def open(self, listen: Open) -> Listener | None:
        """Return the listener for the transport; None when `listen` ended the call at once."""
        self._listener = listen(self)
        return None if self._listener is None else self

    # --- what the listener asks of its call ---

    @property
    def metadata(self) -> Metadata:
        return self._call.metadata

    def respond(self, parts: Parts) -> None:
        self._sent_bytes += sum(map(len, parts))
        self._call.respond(parts)
        self._tell(OK)

    def send(self, parts: Parts) -> None:
        self._sent_bytes += sum(map(len, parts))
        self._call.send(parts)

    def end(self, status: Status = OK) -> None:
        self._call.end(status)
        self._tell(status)

    def drop(self) -> None:
        self._call.drop()
        self._tell(TOO_SLOW)

    def when_ready(self, resume: Callable[[], None]) -> None:
        self._call.when_ready(resume)

    def hold(self) -> None:
        self._call.hold()

    def release(self) -> None:
        self._call.release()

    # --- what the transport tells its listener ---

    def message(self, data: Buffer) -> None:
        if not self._received_bytes:
            self._start = bytes(data[:_START_BYTES])
        self._received_bytes += len(data)
        if self._listener is not None:
            self._listener.message(data)

    def half_closed(self) -> None:
        if self._listener is not None:
            self._listener.half_closed()

    def aborted(self, status: Status) -> None:
        listener = self._listener
        self._tell(status)
        if listener is not None:
            listener.aborted(status)

    def _tell(self, status: Status) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._listener = None
        texts = read_first_texts(self._start)
        self._log.write(
            PROTOCOL,
            self._name,
            status.code.name,
            self._began_ns,
            model=texts.get(_MODEL_FIELDS.get(self._name, 0), ""),
            received=self._received_bytes,
            sent=self._sent_bytes,
            request_id=texts.get(_ID_FIELDS.get(self._name, 0), ""),
            client=self.client,
            error=error_of(status),
        )


def error_of(status: Status) -> str | None:
    """Return what a line says of a call that ended so; None where it ended well."""
    return None if status.code is StatusCode.OK else status.text or "no text"


def logged_opener(log: RequestLog, name: str, listen: Open) -> Open:
    """Return what opens calls as `listen` does, and writes their lines while the log is active."""

    def open_call(call: Call) -> Listener | None:
        return LoggedCall(log, name, call).open(listen) if log.active else listen(call)

    return open_call


def tell_refusal(log: RequestLog, name: str, status: Status, client: str) -> None:
    """Write the line of a call that was refused before anything of it was read."""
    if log.active:
        began_ns = time.monotonic_ns()
        log.write(PROTOCOL, name, status.code.name, began_ns, client=client, error=error_of(status))
