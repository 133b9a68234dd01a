"""Children that end with the server, even if it is killed while their code never returns."""

import fcntl
import os
import signal
from threading import Thread

_SET_SIGNAL = 10
"""F_SETSIG of Linux, which the fcntl module does not name."""


def hold(descriptor: int) -> None:
    """
    Die with the server: `descriptor` is the reading end of a pipe that only the server can write to, and never does.

    When the server is gone the kernel kills this process and all it forked, whatever they are doing. Where it cannot,
    a thread waits for the end of the pipe.
    """
    try:
        fcntl.fcntl(descriptor, _SET_SIGNAL, signal.SIGKILL)
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:
        Thread(target=_wait, args=(descriptor,), name="lifeline", daemon=True).start()


def _wait(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.killpg(0, signal.SIGKILL)
