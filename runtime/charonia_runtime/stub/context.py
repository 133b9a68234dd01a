"""What this process is at the moment: the session, the instance it runs, and how far it is in the model's life."""

import asyncio
from dataclasses import dataclass
from enum import Enum
from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from charonia_runtime.stub.session import Session


class Phase(Enum):
    """Which function of the model may be running; the value is its name."""

    AUTO_COMPLETE = "auto_complete_config"
    INITIALIZE = "initialize"
    EXECUTE = "execute"
    FINALIZE = "finalize"


@dataclass(frozen=True, slots=True)
class Execution:
    """A call of a model's `execute` that is no coroutine."""

    thread: int
    batch: int


class Context:
    """Set by `worker`, read by what models call without an argument that would lead there."""

    session: "Session"
    phase = Phase.AUTO_COMPLETE
    model_name = ""
    instance_name = ""
    version_directory = ""
    decoupled = False
    iterative = False
    """Whether requests may be released to come again."""
    output_names: tuple[str, ...] = ()
    execution: Execution | None = None
    """The call that runs now."""

    def runs_here(self, batch: int) -> bool:
        """Whether the caller is the thread that executes `batch`, outside of any event loop: it alone may wait."""
        execution = self.execution
        if execution is None or execution.batch != batch or execution.thread != get_ident():
            return False
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return True
        return False


context = Context()
"""A process runs one instance, so there is one."""
