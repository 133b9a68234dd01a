"""
Processes that a model has started and that have left its process group, found by a variable of their environment.

Linux only: elsewhere none is found. A process that has left the group and was executed with another environment is not
found either; nor is any of them when the server itself is killed by SIGKILL, which ends the group alone.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

VARIABLE = "CHARONIA_INSTANCE"
_PROCESSES = Path("/proc")
_ROUNDS = 3
"""What forks while it is looked for is found in the next round."""


def new_mark() -> str:
    """A value for `VARIABLE` that no other process has."""
    return token_hex(16)


def kill_marked(mark: str) -> int:
    """Kill every process of this user with `mark` in the environment that it was started with; how many there were."""
    wanted = f"{VARIABLE}={mark}".encode()
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        found = {int(entry.name) for entry in _processes() if _kill_if_marked(int(entry.name), wanted)}
        if found <= killed:
            break
        killed |= found
    return len(killed)


def _processes() -> list[Path]:
    try:
        return [entry for entry in _PROCESSES.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _kill_if_marked(pid: int, wanted: bytes) -> bool:
    if pid == os.getpid() or not _is_marked(pid, wanted):
        return False
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _is_marked(pid, wanted):  # the number went to another process meanwhile
            return False
        with suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
        return False
    finally:
        os.close(handle)


def _is_marked(pid: int, wanted: bytes) -> bool:
    try:
        return wanted in (_PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
