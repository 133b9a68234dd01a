"""Temporary folders that end with their process: also after SIGKILL, when the next one of their kind is made."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_OWNER = ".owner"
"""A file in the folder that its process keeps locked. The kernel unlocks it when the process ends in any way."""


class OwnedFolder:
    """
    A new, empty folder below `parent`, or in the temporary directory, whose name begins with `prefix`.

    Removed by `remove`, by the garbage collector, or when the interpreter exits, whichever comes first. Making one
    removes those of the same kind whose processes were killed.
    """

    def __init__(self, prefix: str, parent: str | None = None) -> None:
        """Raises OSError."""
        remove_abandoned(prefix, parent)
        self._holder = tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
        self.path = Path(self._holder.name)
        unlocked = self.path / f"{_OWNER}.new"
        self._lock = unlocked.open("w", encoding="ascii")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / _OWNER)

    def remove(self) -> None:
        """Delete the folder and all in it. May be called again."""
        self._holder.cleanup()
        self._lock.close()


def remove_abandoned(prefix: str, parent: str | None = None) -> None:
    """Remove this user's folders of a kind whose processes have ended without removing them."""
    with suppress(OSError):
        for folder in Path(parent or tempfile.gettempdir()).glob(f"{prefix}*/{_OWNER}"):
            _remove_if_abandoned(folder)


def _remove_if_abandoned(owner: Path) -> None:
    with suppress(OSError):
        if owner.stat().st_uid != os.getuid():
            return
        with owner.open("r+", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(owner.parent, ignore_errors=True)
