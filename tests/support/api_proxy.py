"""A proxy in front of an API server that fails as a test wants: answers of its own, broken streams, silence."""

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.support.api_server import ApiServer


@dataclass(frozen=True)
class Request:
    """What a client asks."""

    method: str
    path: str
    watches: bool


@dataclass(frozen=True)
class Refusal:
    """An answer instead of the API server's."""

    status: int
    reason: str = "InternalError"

    @property
    def body(self) -> bytes:
        told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.status, "reason": self.reason}
        return json.dumps({**told, "message": f"refused by the test: {self.reason}"}).encode()


Fault = Callable[[Request], Refusal | None]
"""Decides about a request; None lets it through. May block, which the client sees as silence."""


@dataclass(eq=False)
class _Stream:
    """A watch that is open."""

    path: str
    write: Callable[[bytes], None]
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: bool = False


class ApiProxy:
    """From `with` to the end of it; `fault` may be exchanged at any time."""

    def __init__(self, server: ApiServer) -> None:
        self.fault: Fault = lambda _: None
        self.delay: Callable[[], float] = lambda: 0.0
        """Seconds by which what a watch tells comes late."""
        self._streams: set[_Stream] = set()
        self._upstream = server.url.removeprefix("https://")
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def watched(self, plural: str) -> int:
        """How many watches of a kind are open."""
        return sum(stream.path.endswith(f"/{plural}") for stream in list(self._streams))

    def end_watches(self, plural: str, code: int, reason: str) -> None:
        """Let the open watches of a kind end with an ERROR event."""
        status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}
        line = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
        for stream in [each for each in self._streams if each.path.endswith(f"/{plural}")]:
            with stream.lock:
                stream.write(line)
                stream.write(b"")
                stream.ended = True

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(self._upstream, timeout=60, context=context)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed leave connections behind."""


def _handler(proxy: ApiProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            url = urlsplit(self.path)
            request = Request(self.command, url.path, parse_qs(url.query).get("watch") == ["true"])
            refusal = proxy.fault(request)
            if refusal is not None:
                self._answer(refusal.status, "application/json", refusal.body)
                return
            with contextlib.closing(proxy.connect()) as upstream:
                try:
                    upstream.request(self.command, self.path, body or None, {**self.headers, "Accept-Encoding": ""})
                    answer = upstream.getresponse()
                except OSError:
                    self.close_connection = True  # as the API server does
                    return
                with answer:
                    if request.watches and answer.status == 200:
                        self._stream(request, answer)
                    else:
                        self._answer(answer.status, answer.headers.get("Content-Type", ""), answer.read())

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 - names that http.server looks for

        def _answer(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, request: Request, answer: http.client.HTTPResponse) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            stream = _Stream(request.path, lambda data: _chunk(self, data))
            proxy._streams.add(stream)
            try:
                while data := answer.read1(1 << 16):
                    time.sleep(proxy.delay())
                    with stream.lock:
                        if stream.ended:
                            break
                        stream.write(data)
                with stream.lock:
                    if not stream.ended:
                        stream.write(b"")
            except (OSError, http.client.HTTPException):
                self.close_connection = True
            finally:
                proxy._streams.discard(stream)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _chunk(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
    handler.wfile.flush()
