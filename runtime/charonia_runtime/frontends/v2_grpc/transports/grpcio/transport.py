"""The life of grpc's server object."""

from charonia_runtime.frontends.v2_grpc.calls import Methods
from charonia_runtime.frontends.v2_grpc.options import Options
from charonia_runtime.frontends.v2_grpc.transports.grpcio.bridge import Bridge
from charonia_runtime.frontends.v2_grpc.transports.grpcio.listener import Listener, open_server


class Transport:
    """See `transports.Transport`."""

    def __init__(self, options: Options, methods: Methods) -> None:
        self._options = options
        self._methods = methods
        self._listener: Listener | None = None

    async def start(self) -> str:
        self._listener, address = open_server(self._options, Bridge(self._methods))
        await self._listener.start()
        return address

    def retire(self) -> None:
        """Nothing: grpc can ask clients to reconnect only by `Options.grpc_max_connection_age`."""

    async def stop(self, timeout_seconds: float) -> None:
        if self._listener is not None:
            await self._listener.stop(timeout_seconds or None)
            self._listener = None
