"""Compressed messages on their way out, in order, although the large ones are compressed in another thread."""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from charonia_runtime.frontends.v2_grpc.calls import Parts
from charonia_runtime.frontends.v2_grpc.status import Status, StatusCode
from charonia_runtime.frontends.v2_grpc.transports.http2.blocks import head_block, trailers_block
from charonia_runtime.frontends.v2_grpc.transports.http2.compression import deflate, deflates_at_once
from charonia_runtime.frontends.v2_grpc.transports.http2.framing import PREFIX
from charonia_runtime.thread_pools import CODING
from charonia_runtime.wires.http2.stream import Stream

logger = logging.getLogger(__name__)


class CompressedMessages:
    """What a call sends to a client that wants it compressed. A message that would only grow is sent as it is."""

    def __init__(self, stream: Stream, encoding: str, level: str) -> None:
        self._stream = stream
        self._encoding = encoding
        self._deflate = partial(deflate, encoding=encoding, level=level)
        self._waiting: deque[Parts | Status | Callable[[], None]] = deque()
        """Messages, the end, and who waits for what is before them to leave."""
        self._is_busy = False
        self._has_head = False

    def send(self, parts: Parts) -> None:
        self._put(parts)

    def end(self, status: Status) -> None:
        self._put(status)

    def when_ready(self, resume: Callable[[], None]) -> None:
        self._put(resume)

    def drop(self) -> None:
        """The client is gone."""
        waiting, self._waiting = self._waiting, deque()
        for item in waiting:
            if callable(item):
                item()

    def _put(self, item: Parts | Status | Callable[[], None]) -> None:
        self._waiting.append(item)
        self._advance()

    def _advance(self) -> None:
        waiting = self._waiting
        while waiting and not self._is_busy:
            item = waiting.popleft()
            if isinstance(item, Status):
                self._stream.send_trailers(trailers_block(item))
            elif callable(item):
                self._stream.when_ready(item)
            elif deflates_at_once(item):
                self._send(item, self._deflate(item))
            else:
                self._is_busy = True
                size = sum(map(len, item))
                CODING.start(partial(self._deflate, item), partial(self._deflated, item), self._failed, size=size)

    def _deflated(self, parts: Parts, deflated: bytes) -> None:
        self._is_busy = False
        self._send(parts, deflated)
        self._advance()

    def _failed(self, error: Exception) -> None:
        logger.error("an answer cannot be compressed", exc_info=error)
        self._is_busy = False
        self._waiting.clear()
        self._stream.send_trailers(trailers_block(Status(StatusCode.INTERNAL, "cannot compress an answer")))

    def _send(self, parts: Parts, deflated: bytes) -> None:
        if not self._has_head:
            self._has_head = True
            self._stream.send_head(head_block(self._encoding))
        size = sum(map(len, parts))
        if len(deflated) < size:
            self._stream.send_data((PREFIX.pack(1, len(deflated)), deflated))
        else:
            self._stream.send_data((PREFIX.pack(0, size), *parts))
