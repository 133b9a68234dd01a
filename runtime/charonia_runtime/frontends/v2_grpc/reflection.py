"""`ServerReflection`: a stream of questions about the services, each answered at once."""

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.frontends.v2_grpc.calls import Buffer, Call, Listener
from charonia_runtime.frontends.v2_grpc.status import Status, status_of
from charonia_runtime.protocols.reflection.answers import answer


def open_reflection(call: Call) -> Listener:
    """A call of `ServerReflectionInfo`, of either version."""
    return _Reflection(call)


class _Reflection:
    def __init__(self, call: Call) -> None:
        self._call = call

    def message(self, data: Buffer) -> None:
        try:
            self._call.send([answer(data)])
        except InferenceError as error:
            self._call.end(status_of(error))
        else:
            self._call.hold()
            self._call.when_ready(self._call.release)

    def half_closed(self) -> None:
        self._call.end()

    def aborted(self, _status: Status) -> None:
        """Nothing is under way."""
