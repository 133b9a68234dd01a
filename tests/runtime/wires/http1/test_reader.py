"""The reader: however the bytes are cut, the same requests come out; what is over a limit is not read."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia_runtime.wires.http1.heads import KnownHeads
from charonia_runtime.wires.http1.limits import MAXIMUM_CHUNKS
from charonia_runtime.wires.http1.messages import (
    BodyTooLargeError,
    RefusedRequestError,
    Request,
    TooManyChunksError,
    UnreadableRequestError,
)
from charonia_runtime.wires.http1.reader import RequestReader

LIMIT = 200_000
DIRECT = 60_000
"""A body of so many bytes is received into its own buffer."""


class Reading:
    """A reader and what it delivered."""

    def __init__(self, heads: KnownHeads | None = None) -> None:
        self.requests: list[Request] = []
        self.agreed = 0
        self.reader = RequestReader(LIMIT, self.requests.append, self._agree, heads or KnownHeads())

    def _agree(self) -> None:
        self.agreed += 1

    def receive(self, data: bytes) -> None:
        """Give the reader bytes as a connection does: into its vacancy where it has one."""
        rest = memoryview(data)
        while rest:
            vacancy = self.reader.vacancy()
            if vacancy is None:
                # What a connection reads at once is at most its buffer.
                buffer = bytearray(rest[:65536])
                self.reader.feed(memoryview(buffer))
                rest = rest[len(buffer) :]
                buffer[:] = b"\xff" * len(buffer)
            else:
                count = min(len(vacancy), len(rest))
                vacancy[:count] = rest[:count]
                self.reader.received(count)
                rest = rest[count:]


def post(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Name: value\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(path: str, chunks: Sequence[bytes]) -> bytes:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return f"POST {path} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + framed + b"0\r\n\r\n"


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({place % len(data) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


KINDS = ["plain", "chunked", "upgrade"]
sizes = st.one_of(st.integers(0, 40), st.integers(DIRECT - 2, DIRECT + 2))
messages = st.lists(st.tuples(st.sampled_from(KINDS), sizes), min_size=1, max_size=4)


def encode(kind: str, body: bytes) -> bytes:
    match kind:
        case "chunked":
            return chunked("/chunked", [part for part in (body[:7], body[7:]) if part])
        case "upgrade":
            return post("/upgrade", body).replace(b"Host: x\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n")
        case _:
            return post("http://host/plain", body)


@settings(deadline=None)
@given(messages, st.lists(st.integers(0, 2**20), max_size=12))
def test_any_cut_gives_the_same_requests(sent: list[tuple[str, int]], places: list[int]) -> None:
    bodies = [(bytes(range(251)) * (size // 251 + 1))[:size] for _, size in sent]
    data = b"".join(encode(kind, body) for (kind, _), body in zip(sent, bodies, strict=True))
    reading = Reading()
    for piece in cut(data, places):
        reading.receive(piece)

    assert [request.path for request in reading.requests] == [f"/{kind}" for kind, _ in sent]
    assert [bytes(request.body) for request in reading.requests] == bodies
    assert reading.reader.is_idle


def test_a_request_has_its_headers() -> None:
    reading = Reading()
    reading.receive(b"GET /a?b HTTP/1.0\r\nX-One: 1\r\nx-one: 2\r\nConnection: keep-alive\r\n\r\n")

    (request,) = reading.requests

    assert (request.head.method, request.path, request.head.version, request.keep_alive) == (b"GET", "/a", "1.0", True)
    assert list(request.head.header_texts()) == [("X-One", "1"), ("Connection", "keep-alive")]
    assert len(request.head.headers) == 3
    assert request.head.field_text("X-ONE") == "1"
    assert request.head.field_text("absent") is None


def test_consent_is_given_only_to_bodies_within_the_limit() -> None:
    reading = Reading()
    reading.receive(b"POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n")
    assert reading.agreed == 1
    reading.receive(b"abc")

    with pytest.raises(BodyTooLargeError):
        reading.receive(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 999999\r\n\r\n")
    assert reading.agreed == 1


def test_a_body_that_says_it_is_too_large() -> None:
    with pytest.raises(BodyTooLargeError) as caught:
        Reading().receive(f"POST / HTTP/1.1\r\nContent-Length: {LIMIT + 1}\r\n\r\n".encode())

    assert (caught.value.byte_size, caught.value.limit) == (LIMIT + 1, LIMIT)


def test_a_body_that_turns_out_too_large_is_not_kept() -> None:
    reading = Reading()
    with pytest.raises(BodyTooLargeError):
        reading.receive(chunked("/", [bytes(50_000)] * 5))

    assert reading.requests == []


def test_as_many_chunks_as_are_allowed() -> None:
    reading = Reading()
    reading.receive(chunked("/", [b"x"] * MAXIMUM_CHUNKS))
    assert bytes(reading.requests[0].body) == b"x" * MAXIMUM_CHUNKS

    with pytest.raises(TooManyChunksError):
        reading.receive(chunked("/", [b"x"] * (MAXIMUM_CHUNKS + 1)))


@pytest.mark.parametrize(
    "data",
    [
        b"garbage\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000,
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=lambda data: data[:40].decode(),
)
def test_what_is_no_request(data: bytes) -> None:
    with pytest.raises(UnreadableRequestError):
        Reading().receive(data)


@given(st.binary(max_size=200))
def test_no_bytes_surprise_it(data: bytes) -> None:
    reading = Reading()
    try:
        reading.receive(data)
    except UnreadableRequestError:
        assert reading.requests == [] or data.count(b"\r\n\r\n") > 0


def test_a_head_seen_before_gives_the_same_request_with_its_own_body() -> None:
    heads = KnownHeads()
    first, second = Reading(heads), Reading(heads)
    first.receive(post("/a?x=1", b"one"))
    second.receive(post("/a?x=1", b"two") + post("/a?x=1", b"six"))
    (before,), (after, last) = first.requests, second.requests
    assert heads.get(post("/a?x=1", b"two")[:-3]) is not None
    assert [bytes(request.body) for request in (before, after, last)] == [b"one", b"two", b"six"]
    assert after.head is last.head
    assert after.head is before.head


@pytest.mark.parametrize(
    "head",
    [
        b"POST /a HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
        b"POST /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n",
        b"\r\n\r\nGET /a HTTP/1.1\r\n\r\n",
    ],
)
def test_heads_that_mean_more_than_a_body_of_a_size_are_parsed_each_time(head: bytes) -> None:
    heads = KnownHeads()
    for _ in range(2):
        reading = Reading(heads)
        reading.receive(head)
        assert [request.path for request in reading.requests] == ["/a"]
    assert heads.get(head[: head.find(b"\r\n\r\n") + 4]) is None


def test_a_known_head_over_the_limit_is_refused_each_time() -> None:
    heads = KnownHeads()
    for _ in range(2):
        with pytest.raises(BodyTooLargeError):
            Reading(heads).receive(b"POST /a HTTP/1.1\r\nContent-Length: 200001\r\n\r\n")


def test_known_heads_make_room_for_new_ones() -> None:
    heads = KnownHeads()
    sent = [post(f"/{index}", b"") for index in range(2000)]
    for message in sent:
        Reading(heads).receive(message)
    assert heads.get(sent[0]) is None
    assert heads.get(sent[-1]) is not None


def test_trailers_are_dropped() -> None:
    reading = Reading()
    reading.receive(b"POST / HTTP/1.1\r\nA: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: 2\r\nB: 3\r\n\r\n")
    (request,) = reading.requests
    assert list(request.head.header_texts()) == [("A", "1"), ("Transfer-Encoding", "chunked")]


@pytest.mark.parametrize("unit", [b"a: b\r\n", b"X: " + b"a" * 5000, b"a" * 5000])
def test_trailers_are_bounded(unit: bytes) -> None:
    reading = Reading()
    reading.receive(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")
    with pytest.raises(UnreadableRequestError):
        reading.receive(unit * (200_000 // len(unit)))


@pytest.mark.parametrize("start", [b"0", b"3;a=", b"3;"])
def test_chunk_sizes_are_bounded(start: bytes) -> None:
    reading = Reading()
    reading.receive(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + start)
    with pytest.raises(UnreadableRequestError):
        reading.receive(b"0" * 200_000)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", "more than one Host header"),
        (b"GET / HTTP/2.0\r\n\r\n", "the version is HTTP/2.0, only HTTP/1.0 and HTTP/1.1 are served here"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "Transfer-Encoding is 'gzip, chunked'"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", "'gzip, chunked'"),
        (b"GET / HTTP/1.1\r\nX\0: a\r\n\r\n", "the request is not valid HTTP: Invalid header token"),
        (b"\x16\x03\x01", "the request line is not HTTP"),
        (
            b"POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n",
            "a chunked body cannot come with an offer to change the protocol",
        ),
    ],
)
def test_refusals_say_why_and_deliver_nothing(head: bytes, text: str) -> None:
    reading = Reading()
    with pytest.raises(RefusedRequestError) as refusal:
        reading.receive(head + b"GET / HTTP/1.1\r\n\r\n")
    assert text in str(refusal.value)
    assert not reading.requests


def test_an_offer_of_another_protocol_with_too_large_a_body_is_refused() -> None:
    reading = Reading()
    head = b"POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: %d\r\n\r\n" % 10**15
    with pytest.raises(BodyTooLargeError):
        reading.receive(head + b"GET / HTTP/1.1\r\n\r\n")
    assert not reading.requests
