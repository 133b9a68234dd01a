"""Attacks on gRPC: HTTP/2 frames by hand, compressed messages, messages of many fields, windows that stay shut."""

import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial

from charonia_runtime.frontends.v2_grpc.transports.http2.framing import PREFIX
from charonia_runtime.wires.http2.frames import PREFACE, frame_header, settings
from charonia_runtime.wires.http2.header_blocks import encode_block
from tests.abuse.steps import Attack, Pause, Send, Step
from tests.support.grpc_calls import SERVICE, message
from tests.support.hostile_bodies import long_messages
from tests.support.http2 import START, data_frame, headers_frame

FIELDS = {
    ":method": "POST", ":scheme": "http", ":path": f"{SERVICE}/ModelInfer", "content-type": "application/grpc",
    "te": "trailers",
}  # fmt: skip
_METHODS = {
    "ModelInferRequest": "ModelInfer", "RepositoryModelLoadRequest": "RepositoryModelLoad",
    "TraceSettingRequest": "TraceSetting", "LogSettingsRequest": "LogSettings",
}  # fmt: skip


def block(**fields: str) -> bytes:
    """A header block of a call; `_` in names stands for `-`."""
    fields = {name.replace("_", "-"): value for name, value in fields.items()}
    return encode_block((name.encode(), value.encode()) for name, value in {**FIELDS, **fields}.items())


def infer(number: int, data: bytes, flag: int = 0, **fields: str) -> bytes:
    """The frames of one whole call."""
    body = PREFIX.pack(flag, len(data)) + data
    frames = [data_frame(number, body[at : at + 16_384]) for at in range(0, len(body), 16_384)]
    return headers_frame(number, block(**fields), 0x4) + b"".join(frames) + data_frame(number, b"", 0x1)


def streams(count: int) -> range:
    """The numbers of so many streams of a client."""
    return range(1, 2 * count, 2)


def rapid_resets() -> Iterator[bytes]:
    yield START
    for number in streams(5000):
        yield headers_frame(number, block(), 0x4) + frame_header(4, 3, 0, number) + struct.pack(">I", 8)


def continuations() -> Iterator[bytes]:
    yield START + headers_frame(1, block(), 0)
    for _ in range(100_000):
        yield frame_header(100, 9, 0, 1) + b"\x40\x01a\x01b" * 20


def header_bombs() -> Iterator[bytes]:
    """A large field in the dynamic table, and blocks that say it thousands of times."""
    yield START + headers_frame(1, b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + block(), 0x5)
    for number in streams(2000)[1:]:
        yield headers_frame(number, b"\xbe" * 10_000, 0x5)


def chores() -> Iterator[bytes]:
    """Settings, pings and empty frames, each of which asks for an answer."""
    yield START
    for _ in range(20_000):
        yield settings(((4, 65535),)) + frame_header(8, 6, 0, 0) + bytes(8) + frame_header(0, 0, 0, 1)


def announced_giants() -> Iterator[bytes]:
    yield START
    for number in streams(2000):
        yield headers_frame(number, block(), 0x4) + data_frame(number, PREFIX.pack(0, 2**31 - 1) + b"a")


def bombs() -> Iterator[bytes]:
    """Ten messages, each of which would become a gigabyte."""
    yield START
    for number in streams(10):
        yield infer(number, gigabyte(), 1, grpc_encoding="gzip")


@cache
def gigabyte() -> bytes:
    """A gigabyte of zeros, compressed."""
    deflater = zlib.compressobj(9, wbits=31)
    zeros = deflater.compress(bytes(64 << 20)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return zeros + zeros[10:] * 15


def refused_calls() -> Iterator[bytes]:
    yield START
    for number in streams(3000):
        yield headers_frame(number, block(**{":path": f"/no.Service/Call{number}"}), 0x5)


def unread_answers(model: str = "megabyte") -> Iterator[bytes]:
    """
    Requests for large answers from a client whose window stays shut: as many answers wait as it may have calls.

    They go with the connection.
    """
    yield PREFACE + settings(((4, 0),)) + frame_header(0, 4, 1, 0)
    for number in streams(40):
        yield infer(number, message({"model_name": model}))


FRAMES: list[Callable[[], Iterator[bytes]]] = [
    rapid_resets, continuations, header_bombs, chores, announced_giants, bombs, refused_calls, unread_answers,
]  # fmt: skip
"""Attacks that need no particular model, but `unread_answers`."""


def _steps(frames: Callable[[], Iterator[bytes]]) -> Iterator[Step]:
    for data in frames():
        yield Send(data)
    yield Pause(0.5)


def _message(entries: int, name: str) -> Iterator[bytes]:
    hostile = next(each for each in long_messages(entries) if each.name == name)
    yield START
    path = f"{SERVICE}/{_METHODS[hostile.message]}"
    yield infer(1, compressed(hostile.data), 1, grpc_encoding="gzip", **{":path": path})


def compressed(data: bytes) -> bytes:
    """`data` in the framing of gzip, compressed as well as possible."""
    deflater = zlib.compressobj(9, wbits=31)
    return deflater.compress(data) + deflater.flush()


def grpc_attacks() -> Iterator[Attack]:
    """Every attack on the gRPC port."""
    for frames in FRAMES:
        yield Attack(frames.__name__.replace("_", " "), "grpc", partial(_steps, frames), cost=2)
    yield Attack("HTTP/1 to gRPC", "grpc", lambda: iter([Send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), Pause(0.2)]))
    yield Attack("only a preface", "grpc", lambda: iter([Send(PREFACE), Pause(1)]))
    for entries, cost in ((10_000, 1), (2_000_000, 3)):
        for small in long_messages(100):  # the names are the same, and cost nothing
            name = f"{small.name} in a message ({'long' if cost == 1 else 'longer'})"
            yield Attack(name, "grpc", partial(_steps, partial(_message, entries, small.name)), cost=cost)
