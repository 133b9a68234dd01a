"""What frames between a frontends' process and the server say. `ipc.frames` says what a frame is."""

from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """The number of a frame is that of the request or of the call that it is about, unless something else is said."""

    # to the server
    SUBMIT = 1
    CANCEL = 2
    CALL = 3
    ROOM = 4
    """The client has taken, or has room for, one more response that is not the last."""
    TRACED = 5
    """What the frontend still has to tell a request's trace; the last of it."""
    MIRRORED = 6
    """The state with this number has been seen."""
    # to the frontends
    RESPONSE = 16
    RESULT = 17
    STATE = 18
    """What changed of what the other side keeps in mind. Numbered by itself, from 1 on."""
    # both ways
    NOTICE = 24
    """Between those who own the two ends; the server knows nothing of it."""
    SEGMENT = 32
    SEGMENT_GONE = 33


FINAL: Final = 1
FLAG_ONLY: Final = 2
REFUSED: Final = 4
FAILED: Final = 8
"""The flags of a RESPONSE."""
