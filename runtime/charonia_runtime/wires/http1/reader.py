"""Bytes to HTTP requests, without I/O: httptools for heads and small bodies, large bodies straight into their place."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import httptools
import numpy as np

from charonia_runtime.wires.http1.heads import LONGEST_BYTES, KnownHeads
from charonia_runtime.wires.http1.limits import MAXIMUM_CHUNKS, MAXIMUM_HEAD_BYTES
from charonia_runtime.wires.http1.messages import (
    BodyTooLargeError,
    Head,
    RefusedRequestError,
    Request,
    TooManyChunksError,
    UnreadableRequestError,
    UnsupportedCodingError,
)

_DIRECT_BYTES: Final = 32 * 1024
"""From so many missing bytes on, a body is received into its own buffer instead of through the parser."""
_METHOD: Final = re.compile(rb"[\r\n]*([!#$%&'*+.^_`|~0-9A-Za-z-]+) ")
_VERSIONS: Final = {"1.0", "1.1"}
_SHOWN_BYTES: Final = 64
"""Of a value that an error repeats."""
_NOTHING: Final = memoryview(b"")
_NO_HEAD: Final = Head(b"", "", "1.1", (), {}, keep_alive=True, content_length=0)


class RequestReader:
    """
    Reads one connection's requests, one after the other, and delivers each when it is complete.

    `agree` is called when a client waits for consent before it sends a body (`Expect: 100-continue`). `heads` are what
    connections with the same limit have read before.
    """

    def __init__(
        self, body_bytes: int, deliver: Callable[[Request], None], agree: Callable[[], None], heads: KnownHeads
    ) -> None:
        self._body_bytes = body_bytes
        self._heads = heads
        self._deliver = deliver
        self._agree = agree
        self._parser = httptools.HttpRequestParser(self)
        self._refusal: RefusedRequestError | None = None
        self.delivered = 0
        """Requests that were complete."""
        self._unknown = b""
        """The bytes of the head that the parser is about to read, where it may be seen again."""
        self._framing_bytes = 0
        self._start_message()

    @property
    def is_idle(self) -> bool:
        """Whether no request has begun that is not complete yet."""
        return not self._begun and not self._head_bytes

    @property
    def is_in_head(self) -> bool:
        """Whether the head of the present request is not complete yet."""
        return self._in_head

    @property
    def received_bytes(self) -> int:
        """Bytes of the present request's body that came so far."""
        return self._received

    def vacancy(self) -> memoryview | None:
        """Where the next bytes shall be received, if they are the rest of a large body: then call `received`."""
        return None if self._direct is None else self._direct[self._received :]

    def received(self, count: int) -> None:
        """The first `count` bytes of `vacancy` are filled."""
        self._received += count
        if self._direct is not None and self._received == self._direct.nbytes:
            if self._parsing:
                # It still waits for this body.
                self._parser = httptools.HttpRequestParser(self)
            self._finish_message(self._direct)

    def feed(self, data: memoryview) -> None:
        """
        Read `data`, which may hold several requests or a piece of one; it may be reused afterwards.

        Raises RefusedRequestError for what is no request, is over a limit or has a coding that is not supported.
        """
        while data.nbytes:
            data = self._feed_parser(data) if self._begun or self._head_bytes else self._feed_known(data)
            if self._refusal is not None:
                raise self._refusal
        if self._in_head:
            if self._head_bytes > MAXIMUM_HEAD_BYTES:
                raise UnreadableRequestError(f"the request line and headers are over {MAXIMUM_HEAD_BYTES} bytes")
        elif self._direct is None and self._head.content_length - self._received >= _DIRECT_BYTES:
            self._receive_directly()

    def _feed_known(self, data: memoryview) -> memoryview:
        """Begin a request: without the parser if its head was seen before. What is left, to be read again."""
        text = bytes(data[:LONGEST_BYTES])
        start = text.find(b"\r\n\r\n") + 4
        if start < 4:
            return self._feed_parser(data)
        head = self._heads.get(text[:start])
        if head is None:
            self._unknown = text[:start]
            return self._feed_parser(data)
        end = start + head.content_length
        if end <= data.nbytes:
            body = memoryview(text)[start:end] if end <= LONGEST_BYTES else memoryview(bytes(data[start:end]))
            self.delivered += 1
            self._deliver(Request(head, body))
            return data[end:] if end < data.nbytes else _NOTHING
        self._begun, self._in_head = True, False
        self._head = head
        self._pieces.append(bytes(data[start:]))
        self._received = data.nbytes - start
        self._receive_directly()
        return _NOTHING

    def _feed_parser(self, data: memoryview) -> memoryview:
        """Read `data`; what the parser left, to be read again."""
        delivered, received = self.delivered, self._received
        if self._in_head:
            self._head_bytes += data.nbytes
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # No other protocol is on offer, so the client goes on in this one.
            self._parser = httptools.HttpRequestParser(self)
            return self._take_body(data[upgrade.args[0] :]) if self._lacks_body else data[upgrade.args[0] :]
        except httptools.HttpParserInvalidMethodError as error:
            match = _METHOD.match(data)
            if match is None or self.delivered != delivered or self._url:
                raise UnreadableRequestError("the request line is not HTTP") from error
            # Methods that the parser does not know are refused like one that it knows and no route has.
            self._parser = httptools.HttpRequestParser(self)
            return memoryview(b"PATCH" + data[match.end(1) :])
        except httptools.HttpParserError as error:
            if self._refusal is not None:
                raise self._refusal from None
            raise UnreadableRequestError(f"the request is not valid HTTP: {error}") from error
        if self._parsing and not self._in_head:
            self._check_framing(0 if self._received != received else data.nbytes)
        return _NOTHING

    def _check_framing(self, nbytes: int) -> None:
        """Bound what belongs to no body: chunk extensions, zeros of sizes, trailers. 0 where a piece of a body came."""
        self._framing_bytes = self._framing_bytes + nbytes if nbytes else 0
        if self._framing_bytes > MAXIMUM_HEAD_BYTES:
            raise UnreadableRequestError(f"chunk sizes or trailers are over {MAXIMUM_HEAD_BYTES} bytes")

    def _take_body(self, data: memoryview) -> memoryview:
        """Read the body of a request that offers to change the protocol, which the parser leaves alone."""
        taken = data[: self._head.content_length]
        self._pieces.append(bytes(taken))
        self._received = taken.nbytes
        self._receive_directly()
        self.received(0)
        return data[taken.nbytes :]

    def _start_message(self) -> None:
        self._begun = False
        self._parsing = False
        self._in_head = True
        self._head_bytes = 0
        self._head = _NO_HEAD
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._received = 0
        self._chunks = 0
        self._framing_bytes = 0
        self._lacks_body = False
        self._direct: memoryview | None = None

    def _receive_directly(self) -> None:
        self._direct = np.empty(self._head.content_length, np.uint8).data
        self._direct[: self._received] = b"".join(self._pieces)
        self._pieces = []

    def _finish_message(self, body: memoryview) -> None:
        request = Request(self._head, body)
        self._start_message()
        self.delivered += 1
        self._deliver(request)

    def _check_size(self, size: int) -> None:
        if size > self._body_bytes:
            self._refusal = BodyTooLargeError(size, self._body_bytes)

    # --- called by the parser ---

    def on_message_begin(self) -> None:
        self._begun = self._parsing = True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        self._in_head = False
        version = parser.get_http_version()
        fields = {name.lower(): value for name, value in reversed(self._headers)}
        self._refusal = _refusal_of(version, self._headers, fields, offers_upgrade=parser.should_upgrade())
        if self._refusal is not None:
            return
        length = fields.get(b"content-length") if b"transfer-encoding" not in fields else None
        self._head = Head(
            parser.get_method(), _path_of(self._url), version, self._headers, fields, parser.should_keep_alive(),
            0 if length is None else int(length),
        )  # fmt: skip
        self._check_size(self._head.content_length)
        if self._refusal is not None:
            return
        if b"expect" in fields and fields[b"expect"].lower() == b"100-continue":
            self._agree()
        if self._unknown:
            self._heads.remember(self._unknown, self._head)
            self._unknown = b""

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > MAXIMUM_CHUNKS + 1:  # the last one is empty
            self._refusal = TooManyChunksError(MAXIMUM_CHUNKS)

    def on_body(self, body: bytes) -> None:
        if self._refusal is None:
            self._pieces.append(body)
            self._received += len(body)
            self._check_size(self._received)

    def on_message_complete(self) -> None:
        if self._refusal is not None:
            return
        if self._parser.should_upgrade() and self._head.content_length > self._received:
            self._lacks_body = True
        else:
            pieces = self._pieces
            self._finish_message(memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces)))


def _refusal_of(
    version: str, headers: Sequence[tuple[bytes, bytes]], fields: Mapping[bytes, bytes], *, offers_upgrade: bool
) -> RefusedRequestError | None:
    """Why a head that the parser takes is refused all the same; RFC 9112 sections 2.3, 3.2 and 6.1."""
    if version not in _VERSIONS:
        return UnreadableRequestError(f"the version is HTTP/{version}, only HTTP/1.0 and HTTP/1.1 are served here")
    if len(fields) != len(headers) and sum(name.lower() == b"host" for name, _ in headers) > 1:
        return UnreadableRequestError("more than one Host header")
    if b"transfer-encoding" in fields:
        codings = b", ".join(value for name, value in headers if name.lower() == b"transfer-encoding")
        if codings.strip().lower() != b"chunked":
            return UnsupportedCodingError(codings[:_SHOWN_BYTES].decode("latin-1"))
        if offers_upgrade:
            # The parser leaves the body unread, which would be taken for the next request.
            return UnreadableRequestError("a chunked body cannot come with an offer to change the protocol")
    return None


def _path_of(url: bytes) -> str:
    """The path of a request's target, also of one that names the server."""
    path = url.partition(b"?")[0]
    if not path.startswith(b"/"):
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return path.decode("utf-8", "surrogateescape")
