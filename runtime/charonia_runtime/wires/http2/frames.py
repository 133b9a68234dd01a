"""Frames of RFC 9113 section 4 and 6: their names, and how those that the server sends are written."""

from collections.abc import Sequence
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
STREAM_MASK: Final = 2**31 - 1
SMALLEST_FRAME_LIMIT: Final = 16384
"""What every client takes, unless its SETTINGS say more."""

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
MAX_HEADER_LIST_SIZE: Final = 0x6

HEADER: Final = Struct(">HBBBL")
"""Length (upper 16 and lower 8 bits), type, flags, stream."""
SETTING: Final = Struct(">HL")
_NUMBER_FRAME: Final = Struct(">HBBBLL")
_GOAWAY: Final = Struct(">HBBBLLL")

SETTINGS_ACK: Final = HEADER.pack(0, 0, SETTINGS, ACK, 0)


def frame_header(length: int, kind: int, flags: int, stream_id: int) -> bytes:
    """What goes before a payload of `length` bytes."""
    return HEADER.pack(length >> 8, length & 0xFF, kind, flags, stream_id)


def block_frames(block: bytes, *, ends: bool, stream_id: int, frame_bytes: int) -> bytes:
    """A header block in a HEADERS frame, and CONTINUATION frames where it is too large for one."""
    flags = END_STREAM if ends else 0
    if len(block) <= frame_bytes:
        return frame_header(len(block), HEADERS, flags | END_HEADERS, stream_id) + block
    frames = [frame_header(frame_bytes, HEADERS, flags, stream_id), block[:frame_bytes]]
    for start in range(frame_bytes, len(block), frame_bytes):
        piece = block[start : start + frame_bytes]
        last = END_HEADERS if start + frame_bytes >= len(block) else 0
        frames += (frame_header(len(piece), CONTINUATION, last, stream_id), piece)
    return b"".join(frames)


def window_update(stream_id: int, increment: int) -> bytes:
    return _NUMBER_FRAME.pack(0, 4, WINDOW_UPDATE, 0, stream_id, increment)


def rst_stream(stream_id: int, code: int) -> bytes:
    return _NUMBER_FRAME.pack(0, 4, RST_STREAM, 0, stream_id, code)


def ping(payload: bytes, *, ack: bool = False) -> bytes:
    return frame_header(8, PING, ACK if ack else 0, 0) + payload


def goaway(last_stream_id: int, code: int, reason: bytes = b"") -> bytes:
    length = 8 + len(reason)
    return _GOAWAY.pack(length >> 8, length & 0xFF, GOAWAY, 0, 0, last_stream_id, code) + reason


def settings(values: Sequence[tuple[int, int]]) -> bytes:
    return frame_header(6 * len(values), SETTINGS, 0, 0) + b"".join(SETTING.pack(*value) for value in values)
