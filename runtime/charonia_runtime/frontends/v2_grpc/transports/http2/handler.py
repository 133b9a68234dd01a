"""Where the wire's requests go."""

from charonia_runtime.frontends.v2_grpc.calls import Methods
from charonia_runtime.frontends.v2_grpc.options import Options
from charonia_runtime.frontends.v2_grpc.status import status_of
from charonia_runtime.frontends.v2_grpc.transports.http2.blocks import refusal_block
from charonia_runtime.frontends.v2_grpc.transports.http2.exchanges import StreamExchange, UnaryExchange
from charonia_runtime.frontends.v2_grpc.transports.http2.heads import CallHead, read_head
from charonia_runtime.frontends.v2_grpc.transports.http2.refusal import Refusal
from charonia_runtime.wires.http2.stream import Receiver, Stream


class Handler:
    """Makes calls of streams; see `wires.http2.stream.Handler`."""

    def __init__(self, options: Options, methods: Methods) -> None:
        self._methods = methods
        self._compresses = options.grpc_infer_response_compression_level != "none"
        self._level = options.grpc_infer_response_compression_level

    def begin(self, stream: Stream) -> Receiver | None:
        try:
            return self._begin(stream)
        except Exception as error:  # noqa: BLE001 the call's outermost boundary
            return Refusal(stream, refusal_block(status_of(error)))

    def _begin(self, stream: Stream) -> Receiver | None:
        head: CallHead | None = stream.head.note
        if head is None:
            head = stream.head.note = read_head(stream.head, self._methods, compresses=self._compresses)
        method = head.method
        if method is None:
            self._methods.tell_unknown(stream.head.path.decode("latin-1"), head.status, stream.client)
            return Refusal(stream, head.answer, head.text)
        refusal = method.refusal(head.metadata) if method.refusal is not None else None
        if refusal is not None:
            method.answered[refusal.code.name] += 1
            method.tell_refusal(refusal, stream.client)
            return Refusal(stream, refusal_block(refusal))
        if method.is_unary:
            return UnaryExchange(stream, head, method, self._level)
        exchange = StreamExchange(stream, head, method, self._level)
        if exchange.refusal is None:
            return exchange
        method.answered[exchange.refusal.code.name] += 1
        return Refusal(stream, refusal_block(exchange.refusal))
