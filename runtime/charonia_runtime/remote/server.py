"""`RemoteServer`: the server as frontends in a process of their own see it."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from charonia_runtime.core.answers import AnswerCounts
from charonia_runtime.core.cache import CacheUse
from charonia_runtime.core.custom_metrics import CustomMetrics
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import ANY_VERSION, InferenceRequest, InferenceResponse
from charonia_runtime.core.server import (
    IndexEntry,
    LogSettings,
    ModelMetadata,
    ServedModel,
    ServerMetadata,
    Settings,
    SharedMemory,
    VersionStatistics,
)
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.core.tracing import Tracing
from charonia_runtime.ipc.frames import Frame
from charonia_runtime.ipc.messages import RequestRecord, pack_request
from charonia_runtime.remote.control import RemoteSettings, RemoteSharedMemory
from charonia_runtime.remote.documents import (
    read_error,
    read_index,
    read_model_metadata,
    read_server_metadata,
    read_statistics,
)
from charonia_runtime.remote.frames import Kind
from charonia_runtime.remote.link import Link, document_of
from charonia_runtime.remote.messages import ResponseReader, add_request
from charonia_runtime.remote.mirror import ModelMirror
from charonia_runtime.remote.tracing import RemoteTrace, RemoteTracing

logger = logging.getLogger(__name__)

_NUMBERS = 1 << 32
_RESPONSE = int(Kind.RESPONSE)


class RemoteServer:
    """
    Implements `core.server.InferenceServer` over a link to a `peer.Peer`. Used on the running event loop.

    What the engine refuses is answered with `refused` set: whether a request is taken is known a moment later. If the
    server is gone, all that waits for it is answered with UnavailableError.
    """

    cache_use: CacheUse | None = None
    tracing: Tracing

    def __init__(
        self,
        sock: socket.socket,
        segment: int,
        *,
        noticed: Callable[[Mapping[str, Any]], None] | None = None,
        log_changed: Callable[[LogSettings], None] | None = None,
        lost: Callable[[], None] | None = None,
    ) -> None:
        """
        `segment` is the descriptor that both ends share. `noticed` is told what the server's owner says, `log_changed`
        the log's settings now and whenever they change, `lost` that the server is gone.
        """
        self.shared_memory: SharedMemory = RemoteSharedMemory(self._call)
        self.settings: Settings = RemoteSettings(self._call)
        self._tracing = RemoteTracing(self._send_trace)
        self.tracing = self._tracing
        self.custom_metrics = CustomMetrics()
        self.answers = AnswerCounts()
        self._noticed = noticed
        self._log_changed = log_changed
        self._lost = lost
        self._link = Link(sock, segment, self._received, self._closed, near=False)
        self._responses = ResponseReader(self._link.layouts, self._link.segments)
        self._models = ModelMirror()
        self._requests: dict[int, InferenceRequest] = {}
        self._numbers: dict[int, int] = {}
        """Identity of a request in flight → its number."""
        self._calls: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._told_answers: dict[tuple[str, int | str], int] = {}
        self._last_number = 0
        self._known = asyncio.Event()

    async def start(self) -> None:
        """Wait until the server has said which models it has. Raises UnavailableError if it is gone."""
        await self._known.wait()
        if self._link.closed:
            raise _gone()

    def notice(self, document: Mapping[str, Any]) -> None:
        """Tell the server's owner something."""
        self._link.say(Kind.NOTICE, document)

    def tell_answers(self) -> None:
        """Tell the server's owner what was answered since it was told last."""
        news = []
        for protocol, status, count in self.answers:
            more = count - self._told_answers.get((protocol, status), 0)
            if more:
                self._told_answers[protocol, status] = count
                news.append((protocol, status, more))
        if news and not self._link.closed:
            self.notice({"answers": news})

    def close(self) -> None:
        """Leave the server; it cancels what is in flight."""
        if not self._link.closed:
            self._link.close()
            self._fail_all()

    # --- inference ---

    def find_model(self, name: str, version: int = ANY_VERSION) -> ServedModel:
        return self._models.find(name, version)

    def submit(self, request: InferenceRequest) -> None:
        """Raises InferenceError for what cannot even be sent; what the server refuses, it answers."""
        if self._link.closed:
            raise _gone()
        number = self._next_number()
        trace = request.trace if isinstance(request.trace, RemoteTrace) else None
        packer = self._link.packer()
        try:
            add_request(packer, request, None if trace is None else trace.beginning())
        except InferenceError:
            packer.undo()
            raise
        except (struct.error, UnicodeError) as error:
            packer.undo()
            raise InvalidArgumentError(f"{request.error_prefix}the request cannot be read: {error}") from error
        if trace is not None:
            trace.number = number
        request.inputs = {}  # the server has them now
        self._requests[number] = request
        self._numbers[id(request)] = number
        self._link.post(Kind.SUBMIT, packer, number=number)

    def cancel(self, request: InferenceRequest) -> None:
        request.cancelled = True
        number = self._numbers.get(id(request))
        if number is not None:
            self._link.send(Kind.CANCEL, number=number)

    # --- health and documents ---

    async def is_live(self) -> bool:
        return bool(await self._call("is_live"))

    async def is_ready(self) -> bool:
        return bool(await self._call("is_ready"))

    async def is_model_ready(self, name: str, version: int = ANY_VERSION) -> bool:
        return bool(await self._call("is_model_ready", name=name, version=version))

    async def server_metadata(self) -> ServerMetadata:
        return read_server_metadata(await self._call("server_metadata"))

    async def model_metadata(self, name: str, version: int = ANY_VERSION) -> ModelMetadata:
        return read_model_metadata(await self._call("model_metadata", name=name, version=version))

    async def model_config(self, name: str, version: int = ANY_VERSION) -> Mapping[str, Any]:
        document: Mapping[str, Any] = await self._call("model_config", name=name, version=version)
        return document

    async def statistics(self, name: str = "", version: int = ANY_VERSION) -> Sequence[VersionStatistics]:
        return read_statistics(await self._call("statistics", name=name, version=version))

    # --- repository ---

    async def repository_index(self, *, ready: bool = False) -> Sequence[IndexEntry]:
        return read_index(await self._call("repository_index", ready=ready))

    async def load_model(
        self, name: str, *, config: str | None = None, files: Mapping[str, bytes] | None = None
    ) -> None:
        contents = [
            Tensor(path, DataType.UINT8, (len(raw),), np.frombuffer(raw, np.uint8).data if raw else memoryview(b""))
            for path, raw in (files or {}).items()
        ]
        await self._call("load_model", contents, name=name, config=config, has_files=files is not None)

    async def unload_model(self, name: str, *, unload_dependents: bool = False) -> None:
        await self._call("unload_model", name=name, unload_dependents=unload_dependents)

    # --- parts ---

    async def _call(self, method: str, files: Sequence[Tensor] = (), /, **arguments: Any) -> Any:
        """The result of a method of the server. Raises what it raises."""
        if self._link.closed:
            raise _gone()
        packer = self._link.packer()
        try:
            record = RequestRecord(inputs=list(files), rest={"method": method, "arguments": arguments})
            pack_request(packer, record)
        except InferenceError:
            packer.undo()
            raise
        number = self._next_number()
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            self._link.post(Kind.CALL, packer, number=number)
            document = await answer
        finally:
            del self._calls[number]
        if "error" in document:
            raise read_error(document)
        return document["result"]

    def _next_number(self) -> int:
        number = self._last_number
        while True:
            number = (number + 1) % _NUMBERS
            if number not in self._requests and number not in self._calls:
                self._last_number = number
                return number

    def _send_trace(self, number: int, notes: list[tuple[str, int]]) -> None:
        if not self._link.closed:
            self._link.tell(Kind.TRACED, {"notes": notes}, number=number)

    # --- frames ---

    def _received(self, frame: Frame) -> None:
        kind = frame.kind
        if kind == _RESPONSE:
            self._respond(frame)
        elif kind == Kind.RESULT:
            waiting = self._calls.get(frame.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(document_of(frame))
        elif kind == Kind.STATE:
            self._learn(document_of(frame))
            self._link.say(Kind.MIRRORED, number=frame.number)
        elif kind == Kind.NOTICE and self._noticed is not None:
            self._noticed(document_of(frame))

    def _respond(self, frame: Frame) -> None:
        number = frame.number
        request = self._requests.get(number)
        if request is None:
            return
        response = self._responses.read(frame, request.id)
        if response.final:
            self._forget(number, request)
        _deliver(request, response)
        if not response.final and request.flow is not None:
            request.flow.when_ready(partial(self._link.send, Kind.ROOM, number=number))

    def _learn(self, state: Mapping[str, Any]) -> None:
        for name, versions in state.get("models", {}).items():
            self._models.update(name, versions)
        if "tracing" in state:
            self._tracing.active = state["tracing"]
        if "log" in state and self._log_changed is not None:
            self._log_changed(state["log"])
        self._known.set()

    def _closed(self) -> None:
        self._fail_all()
        if self._lost is not None:
            self._lost()

    def _fail_all(self) -> None:
        """Nobody answers any more."""
        self._known.set()
        for number, request in list(self._requests.items()):
            self._forget(number, request)
            _deliver(request, InferenceResponse(request.model_name, request.model_version, request.id, error=_gone()))
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_exception(_gone())

    def _forget(self, number: int, request: InferenceRequest) -> None:
        del self._requests[number]
        del self._numbers[id(request)]


def _deliver(request: InferenceRequest, response: InferenceResponse) -> None:
    try:
        request.sink.send(response)
    except Exception:
        logger.exception("unexpected error while a response of model '%s' was taken", response.model_name)


def _gone() -> InferenceError:
    return UnavailableError("the server is gone")
