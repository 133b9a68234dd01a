"""Frames cut from bytes, wherever a read happens to end."""

from typing import Final, Protocol

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import ConnectionFault
from charonia_runtime.wires.http2.frames import (
    DATA,
    END_STREAM,
    HEADER,
    HEADER_BYTES,
    PADDED,
    PREFACE,
    SMALLEST_FRAME_LIMIT,
    STREAM_MASK,
)
from charonia_runtime.wires.http2.header_blocks import HARD_LIMIT_FACTOR
from charonia_runtime.wires.http2.limits import Limits
from charonia_runtime.wires.http2.stream import Stream

_unpack_header: Final = HEADER.unpack_from


class FrameSink(Protocol):
    """Where frames go: the connection. All of it may raise ConnectionFault."""

    def begin_data(self, stream_id: int, flags: int, length: int, body_length: int) -> Stream | None:
        """Account for a DATA frame; the stream that its body goes to, if any."""

    def end_data(self, stream: Stream) -> None:
        """The stream's last piece was handed over."""

    def frame(self, kind: int, flags: int, stream_id: int, payload: memoryview) -> None:
        """Take a whole frame of another kind."""


def largest_whole_frame(limits: Limits) -> int:
    """The largest frame that is not DATA: a header block, if that is not too large to be sent at all."""
    return min(limits.frame_bytes, max(SMALLEST_FRAME_LIMIT, limits.header_list_bytes * HARD_LIMIT_FACTOR))


class FrameReader:
    """
    Cuts what a client sends.

    A DATA frame's body goes to its stream as it arrives, without a copy; frames of all other kinds are taken whole.
    """

    def __init__(self, sink: FrameSink, limits: Limits) -> None:
        self._sink = sink
        self._data_limit = limits.frame_bytes
        self._whole_limit = largest_whole_frame(limits)
        self._has_preface = False
        self._stream: Stream | None = None
        self._body_left = 0
        self._padding_left = 0
        self._is_last = False

    def read(self, data: memoryview) -> int:
        """Take what can be taken; the rest comes again, with more behind it. Returns how many bytes were taken."""
        at = 0
        end = len(data)
        if not self._has_preface:
            at = self._read_preface(data)
            if not at:
                return 0
        while True:
            if self._body_left or self._padding_left:
                at = self._continue_body(data, at, end)
            if end - at < HEADER_BYTES:
                return at
            high, low, kind, flags, stream_id = _unpack_header(data, at)
            length = high << 8 | low
            if kind == DATA:
                if length > self._data_limit:
                    raise ConnectionFault(errors.FRAME_SIZE_ERROR, "a DATA frame over the limit")
                body_at = at + HEADER_BYTES
                body_end = body_at + length
                if flags & PADDED:
                    if end == body_at and length:
                        return at
                    at = self._begin_padded(data, at, (stream_id & STREAM_MASK, flags, length))
                    continue
                stream = self._sink.begin_data(stream_id & STREAM_MASK, flags, length, length)
                if body_end > end:
                    self._stream = stream
                    self._body_left = length
                    self._is_last = bool(flags & END_STREAM)
                    at = body_at
                    continue
                at = body_end
                if stream is not None:
                    if length and stream.receiver is not None:
                        stream.receiver.data(data[body_at:body_end])
                    if flags & END_STREAM:
                        self._sink.end_data(stream)
                continue
            if length > self._whole_limit:
                raise ConnectionFault(errors.FRAME_SIZE_ERROR, "a frame over the limit")
            frame_end = at + HEADER_BYTES + length
            if frame_end > end:
                return at
            self._sink.frame(kind, flags, stream_id & STREAM_MASK, data[at + HEADER_BYTES : frame_end])
            at = frame_end

    def _read_preface(self, data: memoryview) -> int:
        length = min(len(data), len(PREFACE))
        if data[:length] != PREFACE[:length]:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "this is not HTTP/2")
        self._has_preface = length == len(PREFACE)
        return length if self._has_preface else 0

    def _begin_padded(self, data: memoryview, at: int, header: tuple[int, int, int]) -> int:
        stream_id, flags, length = header
        padding = data[at + HEADER_BYTES] if length else 0
        body_length = length - 1 - padding
        if body_length < 0:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "more padding than frame")
        self._stream = self._sink.begin_data(stream_id, flags, length, body_length)
        self._body_left = body_length
        self._padding_left = padding
        self._is_last = bool(flags & END_STREAM)
        at += HEADER_BYTES + 1
        if not body_length and not padding:
            self._end_body()
        return at

    def _continue_body(self, data: memoryview, at: int, end: int) -> int:
        """Hand over what came of a DATA frame that is not complete."""
        size = min(self._body_left, end - at)
        stream = self._stream
        if size:
            if stream is not None and stream.receiver is not None:
                stream.receiver.data(data[at : at + size])
            self._body_left -= size
            at += size
        if not self._body_left:
            skipped = min(self._padding_left, end - at)
            self._padding_left -= skipped
            at += skipped
            if not self._padding_left:
                self._end_body()
        return at

    def _end_body(self) -> None:
        stream, self._stream = self._stream, None
        if self._is_last and stream is not None:
            self._sink.end_data(stream)
