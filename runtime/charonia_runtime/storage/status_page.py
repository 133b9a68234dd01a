"""The status of a copy over HTTP, for a platform that watches over many of them."""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from typing_extensions import override

from charonia_runtime.storage.failures import LocationError

_ANYWHERE = "::" if socket.has_dualstack_ipv6() else ""
_TIMEOUT_SECONDS = 5


class StatusPage:
    """Answers every GET with the document of that moment while the context is open. `port` 0: answers nothing."""

    def __init__(self, port: int, document: Callable[[], Mapping[str, Any]]) -> None:
        self._port = port
        self._document = document
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        """Raises LocationError when the port cannot be had."""
        if self._port:
            try:
                self._server = _Server((_ANYWHERE, self._port), _handler(self._document))
            except OSError as error:
                raise LocationError(f"cannot serve the status on port {self._port}: {error.strerror}") from error
            threading.Thread(target=self._server.serve_forever, name="charonia-sync-status", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Of both versions of IP, where the machine has both."""

    daemon_threads = True
    block_on_close = False
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    @override
    def server_bind(self) -> None:
        if self.address_family is socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are their own business."""


def _handler(document: Callable[[], Mapping[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_SECONDS

        def do_GET(self) -> None:
            body = json.dumps(document(), ensure_ascii=False).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing: it is asked every few seconds."""

    return Handler
