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
        "where reading and writing requests uses up that process's core (tensors in JSON above all, compression, TLS) "
        "and other cores are idle: the work is then done there. Small binary requests gain little: each costs about "
        "twice the CPU and waits 0.1 ms longer. A process takes about 90 MB of memory, and of /dev/shm 4 MB and what "
        "tensors above 16 KB need while they are on their way.",
    )

    def __post_init__(self) -> None:
        if not 0 <= self.frontend_processes <= _MOST:
            raise OptionError(_FLAG, f"--{_FLAG} must be between 0 and {_MOST}, got {self.frontend_processes}")
