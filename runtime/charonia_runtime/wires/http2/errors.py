"""
Error codes of HTTP/2 (RFC 9113 section 7), and what the wire raises to itself.

Nothing of this reaches a frontend: it is told the code by `Receiver.aborted`.

    Exception
    └── PeerError            code, reason
        ├── StreamFault      ends one stream: RST_STREAM
        └── ConnectionFault  ends the connection: GOAWAY
"""

from typing import Final

NO_ERROR: Final = 0x0
PROTOCOL_ERROR: Final = 0x1
INTERNAL_ERROR: Final = 0x2
FLOW_CONTROL_ERROR: Final = 0x3
SETTINGS_TIMEOUT: Final = 0x4
STREAM_CLOSED: Final = 0x5
FRAME_SIZE_ERROR: Final = 0x6
REFUSED_STREAM: Final = 0x7
CANCEL: Final = 0x8
COMPRESSION_ERROR: Final = 0x9
CONNECT_ERROR: Final = 0xA
ENHANCE_YOUR_CALM: Final = 0xB
INADEQUATE_SECURITY: Final = 0xC
HTTP_1_1_REQUIRED: Final = 0xD


class PeerError(Exception):
    """A client broke the protocol or a limit; `reason` is for its log."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StreamFault(PeerError):  # noqa: N818 - the tree says what they are
    """Ends one stream."""


class ConnectionFault(PeerError):  # noqa: N818 - the tree says what they are
    """Ends the connection."""
