"""Attacks on HTTP/1: framing, heads, trailers, bodies, and clients that do not read, write or end."""

import gzip
from collections.abc import Callable, Iterator
from functools import cache, partial

from tests.abuse.steps import NO_ANSWER, Attack, HalfClose, Pause, Read, Send, Step
from tests.support.hostile_bodies import HostileBody, an_input, long_arrays, long_documents

_OK = an_input("FP32", b"[3]", b"[1,2,3]")
_INFER = "/v2/models/numbers/infer"
_REFUSED = frozenset({400, 413, 431, 500, 503})
_ANY_ANSWER = frozenset({200, *_REFUSED})
_MODELS = {"BYTES": "texts", "UINT8": "bytes", "BOOL": "flags", "FP32": "numbers"}


def post(path: str, body: bytes, *lines: str) -> bytes:
    """A whole request."""
    head = "".join(f"{line}\r\n" for line in ("Host: x", f"Content-Length: {len(body)}", *lines))
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def head(*lines: str | bytes, request: str = f"POST {_INFER} HTTP/1.1") -> bytes:
    """A head of exactly these lines."""
    texts = [line if isinstance(line, bytes) else line.encode() for line in (request, *lines)]
    return b"\r\n".join(texts) + b"\r\n\r\n"


def asked(data: bytes, seconds: float = 20) -> Callable[[], Iterator[Step]]:
    """Send and wait for the answer."""

    def steps() -> Iterator[Step]:
        yield Send(data)
        yield Read(seconds)

    return steps


def _framing() -> Iterator[Attack]:
    chunked = "Transfer-Encoding: chunked"
    refused = {
        "two hosts": head("Host: a", "Host: b", "Content-Length: 0"),
        "length and chunks": head("Host: x", "Content-Length: 5", chunked) + b"0\r\n\r\n",
        "two lengths": head("Host: x", "Content-Length: 5", "Content-Length: 6") + b"aaaaaa",
        "negative length": head("Host: x", "Content-Length: -1"),
        "signed length": head("Host: x", "Content-Length: +1") + b"a",
        "length of 4000 digits": head("Host: x", f"Content-Length: {'9' * 4000}"),
        "bad chunk size": head("Host: x", chunked) + b"zz\r\n",
        "chunk size of 40 digits": head("Host: x", chunked) + b"f" * 40 + b"\r\n",
        "space before colon": head("Host : x", "Content-Length: 0"),
        "bare line feeds in values": head("Host: x", b"A: b\rC: d", "Content-Length: 0"),
        "no request line": b"\x00\x01\x02\x03 nonsense\r\n\r\n",
        "an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "TLS to a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    }
    for name, data in refused.items():
        yield Attack(name, "http", asked(data), frozenset({400, 413, 501, NO_ANSWER}))
    yield Attack(
        "gzip before chunked", "http", asked(head("Host: x", "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n"),
        frozenset({501}),
    )  # fmt: skip
    yield Attack("raw bytes in a field", "http", asked(post(_INFER, _OK, "X-A: é")), frozenset({200, 400}))
    yield Attack("raw bytes in the path", "http", asked(head("Host: x", request="GET /\xff\xfe HTTP/1.1")))
    yield Attack(
        "a path of 100 KB", "http", asked(head("Host: x", request=f"GET /{'a' * 100_000} HTTP/1.1")),
        frozenset({400, 404, 414, 431, NO_ANSWER}),
    )  # fmt: skip


def _floods() -> Iterator[Attack]:
    def many_fields() -> Iterator[Step]:
        yield Send(b"GET /v2 HTTP/1.1\r\nHost: x\r\n")
        yield Send(b"X-Field: " + b"a" * 50 + b"\r\n", 20_000)
        yield Read()

    def trailers() -> Iterator[Step]:
        yield Send(head("Host: x", "Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n" % (len(_OK), _OK))
        yield Send(b"X-Trailer: " + b"a" * 100 + b"\r\n", 20_000)
        yield Send(b"\r\n")
        yield Read()

    def tiny_chunks() -> Iterator[Step]:
        yield Send(head("Host: x", "Transfer-Encoding: chunked"))
        yield Send(b"1\r\n \r\n" * 1000, 300)
        yield Send(b"0\r\n\r\n")
        yield Read()

    def chunk_extensions() -> Iterator[Step]:
        yield Send(head("Host: x", "Transfer-Encoding: chunked"))
        yield Send(b"1;" + b"a" * 10_000 + b"\r\n \r\n", 200)
        yield Read()

    def nothing_read() -> Iterator[Step]:
        yield Send(post(_INFER, an_input("FP32", b"[2000]", b"[" + b"1," * 1999 + b"1]")), 2000)
        yield Pause(2)

    def metrics_unread() -> Iterator[Step]:
        yield Send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 2000)
        yield Pause(2)

    yield Attack("many fields", "http", many_fields, frozenset({400, 431, NO_ANSWER}))
    yield Attack("many trailers", "http", trailers, frozenset({200, 400, NO_ANSWER}))
    yield Attack("chunks of a byte", "http", tiny_chunks, frozenset({400, 413, NO_ANSWER}))
    yield Attack("long chunk extensions", "http", chunk_extensions, frozenset({400, 408, 413, NO_ANSWER}))
    yield Attack("pipelined and not read", "http", nothing_read, cost=2)
    yield Attack("metrics not read", "metrics", metrics_unread, cost=2)


def _slow() -> Iterator[Attack]:
    def slow_head() -> Iterator[Step]:
        for byte in b"GET /v2 HTTP/1.1\r\nX":
            yield Send(bytes([byte]))
            yield Pause(0.05)
        yield Read(8)

    def slow_body() -> Iterator[Step]:
        yield Send(head("Host: x", "Content-Length: 1000"))
        yield Send(b"{")
        yield Read(8)

    def half_closed() -> Iterator[Step]:
        yield Send(post(_INFER, _OK))
        yield HalfClose()
        yield Read()

    def gone() -> Iterator[Step]:
        yield Send(post(_INFER, _OK), 20)

    yield Attack("slow head", "http", slow_head, frozenset({400, 408, NO_ANSWER}))
    yield Attack("slow body", "http", slow_body, frozenset({400, 408, NO_ANSWER}))
    yield Attack("half-closed request", "http", half_closed, frozenset({200}))
    yield Attack("gone before the answer", "http", gone)
    yield Attack("silent", "http", lambda: iter([Pause(1)]))


def _bodies() -> Iterator[Attack]:
    plain = {
        "many dimensions": an_input("FP32", b"[" + b"9," * 99_999 + b"9]", b"[1]"),
        "a product above all integers": an_input("FP32", b"[9223372036854775807,9223372036854775807]", b"[1]"),
        "a lone surrogate": b'{"id":"\\ud800","inputs":[]}',
        "bytes that are no text": b'{"id":"\xff\xfe","inputs":[]}',
        "a number that is no double": an_input("FP32", b"[1]", b"[1e999]"),
        "a header of another length": b"{}",
        "not JSON": b"\x00" * 5000,
    }
    for name, body in plain.items():
        lines = ["Inference-Header-Content-Length: 99999"] if "another length" in name else []
        yield Attack(name, "http", asked(post(_INFER, body, *lines)), _REFUSED)

    def bomb(size: int | None) -> Iterator[Step]:
        yield Send(post(_INFER, _bomb()[:size], "Content-Encoding: gzip"))
        yield Read(20)

    yield Attack("gzip bomb", "http", partial(bomb, None), frozenset({400, 413}), cost=2)
    yield Attack("a truncated gzip body", "http", partial(bomb, 5000), _REFUSED)
    for made, entries, cost in _LARGE:
        for small in made(5):  # the names are the same, and cost nothing
            yield Attack(
                f"{small.name} ({_size(entries)})",
                "http",
                partial(_hostile, made, entries, small.name),
                _ANY_ANSWER,
                cost,
            )


@cache
def _bomb() -> bytes:
    """128 MiB of zeros, compressed."""
    return gzip.compress(bytes(128 << 20), 9)


_LARGE: list[tuple[Callable[[int], Iterator[HostileBody]], int, int]] = [
    (long_documents, 20_000, 1), (long_documents, 500_000, 3), (long_arrays, 2**24 + 1, 4),
]  # fmt: skip
"""Builders of bodies, their number of entries, and what an attack costs."""


def _hostile(made: Callable[[int], Iterator[HostileBody]], entries: int, name: str) -> Iterator[Step]:
    body = next(each for each in made(entries) if each.name == name)
    path = body.path.format(model=_MODELS[body.datatype])
    if entries < 100_000:
        yield Send(post(path, body.text))
    else:
        yield Send(post(path, gzip.compress(body.text, 1), "Content-Encoding: gzip"))
    yield Read(60)


def _size(entries: int) -> str:
    return "long" if entries < 100_000 else "longer" if entries < 10**7 else "longest"


def http_attacks() -> Iterator[Attack]:
    """Every attack on the HTTP and metrics ports."""
    yield from _framing()
    yield from _floods()
    yield from _slow()
    yield from _bodies()
