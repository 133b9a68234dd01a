"""An attack as data: the bytes that a hostile client sends, its pauses, and the answers that it may get."""

import contextlib
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_READ_BYTES = 64 * 1024
NO_ANSWER = 0
"""In `Attack.statuses`: the connection is closed, or left alone, without an answer."""


@dataclass(frozen=True)
class Send:
    """Send `data`, `times` over."""

    data: bytes
    times: int = 1


@dataclass(frozen=True)
class Pause:
    """Neither send nor read for so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Read:
    """Read until an answer has begun, the server closes, or the time is over."""

    seconds: float = 10


@dataclass(frozen=True)
class HalfClose:
    """Send no more, and go on reading."""


Step = Send | Pause | Read | HalfClose


@dataclass(frozen=True)
class Attack:
    """
    One hostile client.

    `port` is `http`, `grpc` or `metrics`. `statuses` are those of the first HTTP answer that are right; empty for any.
    `cost` is how much work the attack is for this machine: soaks take those of 1 often and those above 3 never.
    """

    name: str
    port: str
    steps: Callable[[], Iterator[Step]]
    statuses: frozenset[int] = frozenset()
    cost: int = 1


@dataclass(frozen=True)
class Outcome:
    """What the attacker saw: the status of the first answer, or NO_ANSWER, and whether the server closed."""

    status: int
    closed: bool


def run(attack: Attack, address: tuple[str, int], send_seconds: float = 5) -> Outcome:
    """Run one attack over a new connection. A server that stops reading, or closes, ends its sending."""
    received, closed = b"", False
    try:
        connection = socket.create_connection(address, timeout=10)
    except OSError:
        return Outcome(NO_ANSWER, closed=True)
    with contextlib.closing(connection):
        connection.settimeout(send_seconds)
        for step in attack.steps():
            try:
                match step:
                    case Send():
                        for _ in range(step.times):
                            connection.sendall(step.data)
                    case Pause():
                        time.sleep(step.seconds)
                    case HalfClose():
                        connection.shutdown(socket.SHUT_WR)
                    case Read():
                        more, closed = _read(connection, step.seconds)
                        received += more
            except TimeoutError:
                continue  # it takes no more: what follows may still be read
            except OSError:
                more, _ = _read(connection, 1)
                received, closed = received + more, True
                break
    status = _STATUS.search(received)
    return Outcome(int(status[1]) if status else NO_ANSWER, closed)


def _read(connection: socket.socket, seconds: float) -> tuple[bytes, bool]:
    """Bytes until an answer's status is there, and whether the server closed."""
    received, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and not _STATUS.search(received):
        connection.settimeout(left)
        try:
            data = connection.recv(_READ_BYTES)
        except TimeoutError:
            break
        except OSError:
            return received, True
        if not data:
            return received, True
        received = (received + data)[-_READ_BYTES:]
    return received, False
