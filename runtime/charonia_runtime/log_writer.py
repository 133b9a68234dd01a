"""Lines on their way to a log: they wait in memory, so that a reader that stalls stops nobody who logs."""

import logging
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_MOST_CHARACTERS: Final = 8 << 20
"""What may wait; lines that come then are lost."""
_MOST_AT_ONCE: Final = 256 << 10


class LogWriter:
    """
    Writes lines to a descriptor in a thread of its own, in order.

    Lines that find no room, or that cannot be written, are counted, and the log says how many they were when it can.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._waiting = 0
        """Characters that wait or are being written."""
        self._lost = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, line: str) -> None:
        """Take a line with its end. Never waits for the reader of the log."""
        with self._changed:
            if self._waiting + len(line) > _MOST_CHARACTERS:
                self._lost += 1
                return
            self._lines.append(line)
            self._waiting += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="log-writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until all is written, for `seconds` at most. Whether it is."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._waiting:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def reopen(self, path: Path) -> None:
        """Go on in the file that has this name now. Raises OSError; then the old one is gone on with."""
        opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.dup2(opened, self._descriptor, inheritable=False)
        finally:
            os.close(opened)

    def _work(self) -> None:
        while True:
            lines = self._take()
            written = self._written("".join(lines))
            with self._changed:
                self._waiting -= sum(map(len, lines))
                self._lost += 0 if written else len(lines)
                lost = 0 if self._waiting or not written else self._lost
                self._lost -= lost
                self._changed.notify_all()
            if lost:
                logger.warning("%d lines of the log are lost: it was not read fast enough, or had no room", lost)

    def _take(self) -> list[str]:
        """The next lines, as many as are written at once."""
        with self._changed:
            while not self._lines:
                self._changed.wait()
            taken, size = [self._lines.popleft()], 0
            while self._lines and (size := size + len(taken[-1])) < _MOST_AT_ONCE:
                taken.append(self._lines.popleft())
            return taken

    def _written(self, text: str) -> bool:
        """Write, for as long as the reader takes. Whether that worked."""
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BlockingIOError:  # others made it so: it is as good as full
            time.sleep(0.05)
            return False
        except OSError:
            return False
        return True
