"""A small HTTP object store for tests: objects, faults, counters. `s3_server` and others put their dialects on it."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass
class Bytes:
    """An object. `tag` is the entity tag without quotes; `part_size` of one that was uploaded in parts."""

    body: bytes
    tag: str
    part_size: int = 0


@dataclass
class Request:
    """What a server was asked, ready to be checked."""

    method: str
    path: str
    """As it was sent, without the query."""
    query: list[tuple[str, str]]
    raw_query: str
    headers: Any
    bucket: str = ""
    key: str = ""

    def parameter(self, name: str, default: str = "") -> str:
        return dict(self.query).get(name, default)


@dataclass
class Answer:
    """A response. `sent` is how many bytes of the body really go out, for bodies that are cut short."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    sent: int | None = None


Fault = Callable[[Request], Answer | None]
"""Called for each request that was signed well; an answer replaces the real one."""


class BucketServer:
    """
    A bucket behind HTTP; a context manager. A subclass checks signatures, lists, and names errors in its dialect.

    `keys` maps an access key's id to its secret and session token; None for a token that has expired.
    """

    bucket = "models"
    page_size = 1000

    def __init__(self) -> None:
        self.objects: dict[str, Bytes] = {}
        self.keys: dict[str, tuple[str, str | None]] = {"AKIDREADER": ("the-secret", "")}
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.sent_bytes = 0
        self.scheme = "http"
        """`https` once a test has wrapped the socket."""
        self.chunk_seconds = 0.0
        """How long each 64 KiB of a body take."""
        self._lock = threading.Lock()

    def put(self, key: str, body: bytes = b"", part_size: int = 0) -> None:
        """Upload; in parts when `part_size` says so."""
        digest = hashlib.md5(body).hexdigest()
        if part_size:
            parts = [hashlib.md5(body[at : at + part_size]).digest() for at in range(0, len(body), part_size)]
            digest = f"{hashlib.md5(b''.join(parts)).hexdigest()}-{len(parts)}"
        self.objects[key] = Bytes(body, digest, part_size)

    def put_tree(self, prefix: str, files: dict[str, bytes]) -> None:
        for key, body in files.items():
            self.put(prefix + key, body)

    def count(self) -> Counter[str]:
        """Requests by kind: `LIST`, `GET`, `HEAD`."""
        return Counter("LIST" if not each.key else each.method for each in self.requests)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        outer = self

        class Handler(_Handler):
            server_of_objects = outer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- dialects ---

    def refusal(self, request: Request) -> Answer | None:
        """An answer for a request that is not signed as it should be."""
        raise NotImplementedError

    def error(self, status: int, code: str, message: str = "") -> Answer:
        raise NotImplementedError

    def listing(self, request: Request, keys: list[str], next_token: str) -> Answer:
        raise NotImplementedError

    def object_headers(self, found: Bytes) -> dict[str, str]:
        raise NotImplementedError

    def place(self, path: str) -> tuple[str, str]:
        """The bucket and the key that a path names."""
        bucket, _, key = path.lstrip("/").partition("/")
        return unquote(bucket), unquote(key)

    def posted(self, path: str, body: bytes) -> Answer:
        """An answer for what is no question for objects."""
        raise NotImplementedError

    # --- answers ---

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
        refused = self.refusal(request)
        if refused is not None:
            return refused
        for fault in list(self.faults):
            replaced = fault(request)
            if replaced is not None:
                return replaced
        if request.bucket != self.bucket:
            return self.error(404, "NoSuchBucket", "The specified bucket does not exist.")
        return self._object(request) if request.key else self._list(request)

    def _list(self, request: Request) -> Answer:
        prefix, after = request.parameter("prefix"), request.parameter("continuation-token")
        keys = sorted(key for key in list(self.objects) if key.startswith(prefix) and key > after)
        page = keys[: min(self.page_size, int(request.parameter("max-keys", "1000")))]
        return self.listing(request, page, page[-1] if len(page) < len(keys) else "")

    def _object(self, request: Request) -> Answer:
        found = self.objects.get(request.key)
        if found is None:
            return self.error(404, "NoSuchKey", "The specified key does not exist.")
        wanted = request.headers.get("If-Match", "").strip('"')
        if wanted and wanted != found.tag:
            return self.error(412, "PreconditionFailed", "At least one of the preconditions did not hold.")
        headers = {"ETag": f'"{found.tag}"', **self.object_headers(found)}
        if request.parameter("partNumber"):
            body = found.body[: found.part_size] if found.part_size else found.body
            parts = -(-len(found.body) // found.part_size) if found.part_size else 0
            return Answer(206, body, {**headers, **({"x-amz-mp-parts-count": str(parts)} if parts else {})})
        start, stop = _range(request.headers.get("Range", ""), len(found.body))
        if "Range" not in request.headers:
            return Answer(200, found.body, headers)
        if start >= len(found.body):
            return self.error(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(found.body)}"
        return Answer(206, found.body[start:stop], headers)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_of_objects: BucketServer

    def do_GET(self) -> None:
        server = self.server_of_objects
        parts = urlsplit(self.path)
        bucket, key = server.place(parts.path)
        query = parse_qsl(parts.query, keep_blank_values=True)
        request = Request(self.command, parts.path, query, parts.query, self.headers, bucket, key)
        self._answer(server.answer(request))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._answer(self.server_of_objects.posted(self.path, body))

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        body = answer.body if answer.sent is None else answer.body[: answer.sent]
        try:
            self._send(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        if answer.sent is not None:
            self.close_connection = True

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, body: bytes) -> None:
        server = self.server_of_objects
        for at in range(0, len(body), 1 << 16):
            if server.chunk_seconds:
                time.sleep(server.chunk_seconds)
            with server._lock:
                server.sent_bytes += min(len(body) - at, 1 << 16)
            self.wfile.write(body[at : at + (1 << 16)])

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


def _range(text: str, size: int) -> tuple[int, int]:
    first, _, last = text.removeprefix("bytes=").partition("-")
    return int(first or 0), min(int(last) + 1 if last else size, size)


def of_object(end: str) -> Callable[[Request], bool]:
    """Fits requests for the object whose key ends like that."""
    return lambda request: bool(request.key) and request.key.endswith(end)


def once(
    server: BucketServer, action: Answer | Callable[[Request], Answer | None], when: Callable[[Request], bool]
) -> None:
    """The first request that fits gets `action`, or what it returns; later ones the truth."""
    lock = threading.Lock()

    def fault(request: Request) -> Answer | None:
        if not when(request) or not lock.acquire(blocking=False):
            return None
        return action if isinstance(action, Answer) else action(request)

    server.faults.append(fault)
