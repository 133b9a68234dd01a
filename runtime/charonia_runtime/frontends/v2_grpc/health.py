"""`grpc.health.v1.Health/Watch`: a stream that says whether the server is ready, and again whenever that changes."""

import asyncio
from typing import Final

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.frontends.v2_grpc.calls import Buffer, Call, Listener
from charonia_runtime.frontends.v2_grpc.status import Status, shutting_down, status_of
from charonia_runtime.protocols import health_proto

_LOOK_SECONDS: Final = 0.5
"""How often the server is asked; a watcher hears of changes that late."""


class HealthWatch:
    """All watchers. The server is asked once for all of them, and not at all while there is none."""

    def __init__(self, server: InferenceServer) -> None:
        self._server = server
        self._watchers: set[_Watcher] = set()
        self._looking: asyncio.Task[None] | None = None

    def open(self, call: Call) -> Listener:
        return _Watcher(self, call)

    def join(self, watcher: "_Watcher") -> None:
        """Tell `watcher` now, and whenever something changes."""
        self._watchers.add(watcher)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())
        else:
            watcher.starting = asyncio.get_running_loop().create_task(self._tell_once(watcher))

    def leave(self, watcher: "_Watcher") -> None:
        self._watchers.discard(watcher)
        if not self._watchers and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def stop(self) -> None:
        """Tell everybody that nothing is served any more."""
        for watcher in list(self._watchers):
            watcher.tell(ready=False)
            watcher.call.end(status_of(shutting_down()))
            self.leave(watcher)

    async def _look(self) -> None:
        while True:
            ready = await self._server.is_ready()
            for watcher in list(self._watchers):
                watcher.tell(ready=ready)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _tell_once(self, watcher: "_Watcher") -> None:
        watcher.tell(ready=await self._server.is_ready())


class _Watcher:
    """One client that watches."""

    def __init__(self, watch: HealthWatch, call: Call) -> None:
        self.call = call
        self.starting: asyncio.Task[None] | None = None
        self._watch = watch
        self._told: bool | None = None
        self._asked = False

    def tell(self, *, ready: bool) -> None:
        if ready is not self._told:
            self._told = ready
            self.call.send([health_proto.encode_check(ready=ready)])

    def message(self, data: Buffer) -> None:
        if self._asked:
            return
        self._asked = True
        try:
            health_proto.decode_check(bytes(data))
        except InferenceError as error:
            self.call.end(status_of(error))
        else:
            self._watch.join(self)

    def half_closed(self) -> None:
        """Nothing: the client goes on listening."""

    def aborted(self, _status: Status) -> None:
        self._watch.leave(self)
