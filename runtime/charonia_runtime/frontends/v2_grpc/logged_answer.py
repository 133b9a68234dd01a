"""The lines of a stream: one for each of its requests."""

import time

from charonia_runtime.frontends.v2_grpc.logged_call import PROTOCOL, error_of
from charonia_runtime.frontends.v2_grpc.status import OK, Status
from charonia_runtime.request_log import RequestLog


class LoggedAnswer:
    """What is counted of one request of a stream, until its last response."""

    __slots__ = ("_began_ns", "_client", "_log", "_received_bytes", "sent_bytes", "status")

    def __init__(self, log: RequestLog, client: str, received_bytes: int) -> None:
        self._log = log
        self._client = client
        self._received_bytes = received_bytes
        self._began_ns = time.monotonic_ns()
        self.sent_bytes = 0
        self.status = OK
        """The first error among the responses: the status of the call says nothing of them."""

    def end(self, model: str, request_id: str, status: Status) -> None:
        """Write the line. `status` is how the call ended, where it did before the request."""
        status = status if self.status is OK else self.status
        self._log.write(
            PROTOCOL,
            "ModelStreamInfer",
            status.code.name,
            self._began_ns,
            model=model,
            received=self._received_bytes,
            sent=self.sent_bytes,
            request_id=request_id,
            client=self._client,
            error=error_of(status),
        )
