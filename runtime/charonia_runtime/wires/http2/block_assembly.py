"""Header blocks put together from HEADERS and CONTINUATION frames."""

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import ConnectionFault
from charonia_runtime.wires.http2.frames import END_HEADERS, END_STREAM, HAS_PRIORITY, PADDED, STREAM_MASK
from charonia_runtime.wires.http2.limits import CONTINUATION_FRAMES


class BlockAssembly:
    """
    The header block that is arriving, within its bounds.

    `begin` and `go_on` are True when `block` is complete, for the stream `stream_id`, which it `ends` or not. Both
    raise ConnectionFault. While it `is_open` no other frame may come.
    """

    __slots__ = ("_limit_bytes", "_parts", "_size", "block", "ends", "is_open", "stream_id")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self.block = b""
        self.ends = False
        self.is_open = False
        self.stream_id = 0

    def begin(self, flags: int, stream_id: int, payload: memoryview) -> bool:
        """Take a HEADERS frame."""
        if flags & (PADDED | HAS_PRIORITY):
            payload = _strip(payload, flags, stream_id)
        self._size = len(payload)
        self._check_size()
        self.stream_id = stream_id
        self.ends = bool(flags & END_STREAM)
        block = payload.tobytes()
        if flags & END_HEADERS:
            self.block = block
            return True
        self._parts = [block]
        self.is_open = True
        return False

    def go_on(self, flags: int, stream_id: int, payload: memoryview) -> bool:
        """Take a CONTINUATION frame."""
        if not self.is_open or self.stream_id != stream_id:
            raise ConnectionFault(errors.PROTOCOL_ERROR, "CONTINUATION of nothing")
        self._size += len(payload)
        self._check_size()
        self._parts.append(payload.tobytes())
        if len(self._parts) > CONTINUATION_FRAMES:
            raise ConnectionFault(errors.ENHANCE_YOUR_CALM, "a header block in too many frames")
        if not flags & END_HEADERS:
            return False
        self.block = b"".join(self._parts)
        self._parts = []
        self.is_open = False
        return True

    def _check_size(self) -> None:
        if self._size > self._limit_bytes:
            raise ConnectionFault(errors.ENHANCE_YOUR_CALM, "a header block over the limit")


def _strip(payload: memoryview, flags: int, stream_id: int) -> memoryview:
    """A HEADERS frame without its padding and priority; raises ConnectionFault where they do not fit."""
    start = padding = 0
    if flags & PADDED:
        if not payload:
            raise ConnectionFault(errors.FRAME_SIZE_ERROR, "HEADERS without the length of their padding")
        padding = payload[0]
        start = 1
    if flags & HAS_PRIORITY:
        if len(payload) < start + 5:
            raise ConnectionFault(errors.FRAME_SIZE_ERROR, "HEADERS without their priority")
        check_dependency(stream_id, payload[start:])
        start += 5
    if start + padding > len(payload):
        raise ConnectionFault(errors.PROTOCOL_ERROR, "more padding than frame")
    return payload[start : len(payload) - padding]


def check_dependency(stream_id: int, payload: memoryview) -> None:
    """Raises ConnectionFault for a stream that depends on itself; apart from that, priorities mean nothing here."""
    if int.from_bytes(payload[:4]) & STREAM_MASK == stream_id:
        raise ConnectionFault(errors.PROTOCOL_ERROR, "a stream that depends on itself")
