"""
HTTP/1 against a live server: whatever a client sends in a session, each answer is HTTP, and the session ends.

The server is a process of its own whose memory is limited. It must live, stay small, log no defect, and answer others.
`<HALF>` in an input is where the client closes its half; without it, it does so at the end.
"""

import atexit
import gzip
import json
import re
import socket
import sys
import tempfile
import time
import zlib
from functools import cache
from pathlib import Path
from typing import Final

from tests.fuzzing.pieces import pieces_of
from tests.support.processes import ServerProcess

CHANGES: Final = 400
"""Sessions in the default tests: each takes milliseconds."""
HALF: Final = b"<HALF>"
_DATA_BYTES: Final = 2 << 30
"""What the process may allocate; of that it may use the number below."""
_RESIDENT_BYTES: Final = 400 << 20
_SESSION_SECONDS: Final = 20.0
_LIMITED: Final = (
    "import os, resource, sys; "
    f"resource.setrlimit(resource.RLIMIT_DATA, ({_DATA_BYTES}, {_DATA_BYTES})); os.execv(sys.argv[1], sys.argv[1:])"
)
_CONFIG: Final = """
backend: "identity"
max_batch_size: 0
input [{name: "IN" data_type: TYPE_FP32 dims: [-1]}]
output [{name: "OUT" data_type: TYPE_FP32 dims: [-1]}]
"""
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] (\d{3}) [A-Za-z ]*\r\n")
_HEAD: Final = b"POST /v2/models/ident/infer HTTP/1.1\r\nHost: a\r\n"
_JSON: Final = json.dumps({
    "inputs": [{"name": "IN", "datatype": "FP32", "shape": [2], "data": [1, 2]}],
    "outputs": [{"name": "OUT", "parameters": {"binary_data": True}}],
}).encode()  # fmt: skip
_HEALTH: Final = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"


def _whole(body: bytes, fields: bytes = b"") -> bytes:
    return _HEAD + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _chunked(body: bytes, fields: bytes = b"", trailers: bytes = b"") -> bytes:
    middle = len(body) // 2
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:middle], body[middle:]))
    return _HEAD + fields + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailers + b"\r\n"


SEEDS = (
    _whole(_JSON) + _HEALTH,
    _whole(_JSON) + HALF,
    _whole(gzip.compress(_JSON), b"Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n") + _HEALTH,
    _whole(zlib.compress(_JSON), b"Content-Encoding: deflate\r\nAccept-Encoding: deflate\r\n"),
    _whole(gzip.compress(bytes(1_000_000)), b"Content-Encoding: gzip\r\nInference-Header-Content-Length: 0\r\n"),
    _whole(bytes(8), b"Inference-Header-Content-Length: 0\r\n") * 3,
    _chunked(_JSON, trailers=b"Content-Encoding: gzip\r\nX: y\r\n") + _HEALTH,
    _chunked(gzip.compress(_JSON), b"Content-Encoding: gzip\r\n", b"X: " + b"y" * 100 + b"\r\n") + HALF,
    _whole(_JSON, b"Expect: 100-continue\r\n") + _HEALTH,
    _whole(_JSON, b"Connection: Upgrade\r\nUpgrade: h2c\r\n") + _HEALTH,
    _whole(_JSON)[:-9] + HALF,
    _HEALTH * 5 + b"GET /v2/models/ident/config HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"POST /v2/repository/index HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}" + _HEALTH,
    b'POST /v2/models/ident/generate HTTP/1.1\r\nContent-Length: 12\r\n\r\n{"IN":[1,2]}' + _HEALTH,
)  # fmt: skip


class _LiveServer:
    """The process, and how much of its log was looked at."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self._folder.name)
        (root / "models/ident/1").mkdir(parents=True)
        (root / "models/ident/config.pbtxt").write_text(_CONFIG)
        self._log = root / "log"
        self._process = ServerProcess(
            root / "models", self._log, "--log-info=false", wrapper=(sys.executable, "-c", _LIMITED)
        )
        self._process.__enter__()
        atexit.register(self._close)
        self.place = ("127.0.0.1", self._process.http_port)

    def check(self) -> None:
        """Raises for a server that ended, grew, logged a defect or answers nobody else."""
        assert self._process.process.poll() is None, self._process.log[-3000:]
        pages = int(Path(f"/proc/{self._process.process.pid}/statm").read_text().split()[1])
        assert pages * 4096 < _RESIDENT_BYTES, f"{pages * 4096} bytes"
        assert "Traceback" not in self._process.log, self._process.log[-3000:]
        assert self._process.get("/v2/health/ready")[0] == 200

    def _close(self) -> None:
        self._process.stop()
        self._folder.cleanup()


@cache
def _server() -> _LiveServer:
    return _LiveServer()


def check(data: bytes) -> None:
    """Raises for whatever must not happen."""
    server = _server()
    session, _, _ = data.partition(HALF)
    answers = _run(server.place, session)
    server.check()
    if b"HEAD" not in session.upper():
        _check_answers(answers)


def _run(place: tuple[str, int], session: bytes) -> bytes:
    """Send a session, and read until the server closes. Raises TimeoutError when it does not."""
    received = []
    deadline = time.monotonic() + _SESSION_SECONDS
    with socket.create_connection(place, timeout=_SESSION_SECONDS) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces_of(session):
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server has closed: what it said is read all the same
        try:
            while data := client.recv(1 << 16):
                received.append(data)
                client.settimeout(max(deadline - time.monotonic(), 0.001))
        except ConnectionError:
            pass
    return b"".join(received)


def _check_answers(data: bytes) -> None:
    """Raises where bytes are no answers of HTTP, one after the other; a reset may have taken the end of the last."""
    while data:
        head, separator, rest = data.partition(b"\r\n\r\n")
        if not separator:
            return
        match = _STATUS_LINE.match(head + b"\r\n")
        assert match is not None, data[:200]
        assert match[1] in {b"100", b"200", b"400", b"401", b"403", b"404", b"405", b"408", b"500", b"501", b"503"}
        assert b"unexpected error" not in data, data[:500]
        if b"Transfer-Encoding: chunked" in head:
            while (size := int(rest.partition(b"\r\n")[0] or b"0", 16)) > 0:
                rest = rest.partition(b"\r\n")[2][size + 2 :]
            data = rest.partition(b"\r\n\r\n")[2]
        else:
            length = re.search(rb"\r\nContent-Length: (\d+)", head)
            assert length is not None or match[1] == b"100", head
            data = rest[int(length[1]) :] if length is not None else rest
