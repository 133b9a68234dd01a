"""What a client did wrong below its messages."""

from charonia_runtime.frontends.v2_grpc.status import Status, StatusCode


class CallError(Exception):
    """Ends a call with a status of gRPC's own, which no error of inference has."""

    def __init__(self, code: StatusCode, text: str) -> None:
        super().__init__(text)
        self.status = Status(code, text)
