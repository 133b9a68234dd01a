"""The flag that moves frontends into processes of their own."""

from dataclasses import dataclass
from typing import Final

from charonia_runtime.core.frontend import OptionError, option

_FLAG: Final = "frontend-processes"
_MOST: Final = 256


@dataclass(frozen=True)
class ProcessOptions:
    """Raises OptionError."""

    frontend_processes: int = option(
        0,
        "How many processes serve HTTP and gRPC beside the one that runs the models; 0 serves in that one. It pays "
        "where many small requests use up its core, and cores are idle: each request costs some 50 us of CPU more, "
        "but only the rest of it is spent next to the models. Each process takes about 100 MB of memory, and 4 MB of "
        "/dev/shm to begin with.",
    )

    def __post_init__(self) -> None:
        if not 0 <= self.frontend_processes <= _MOST:
            raise OptionError(_FLAG, f"--{_FLAG} must be between 0 and {_MOST}, got {self.frontend_processes}")
