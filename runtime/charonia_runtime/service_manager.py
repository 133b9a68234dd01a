"""What systemd, or another service manager that sets NOTIFY_SOCKET, is told of the process (sd_notify(3))."""

import logging
import os
import socket
from typing import Final

logger = logging.getLogger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_VARIABLE: Final = "NOTIFY_SOCKET"


class ServiceManager:
    """Takes the socket's name out of the environment, so that the processes of models do not speak for the server."""

    def __init__(self) -> None:
        name = os.environ.pop(_VARIABLE, "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name

    def tell(self, state: str) -> None:
        """Send a state; nothing happens where there is no service manager, or it does not listen."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notices:
                notices.setblocking(False)
                notices.sendto(state.encode(), self._address)
        except OSError as error:
            logger.warning("cannot tell the service manager '%s': %s", state, error.strerror or error)
