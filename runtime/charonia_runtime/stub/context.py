"""What this process is at the moment: the session, the instance it runs, and how far it is in the model's life."""

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from charonia_runtime.stub.session import Session


class Phase(Enum):
    """Which function of the model may be running; the value is its name."""

    AUTO_COMPLETE = "auto_complete_config"
    INITIALIZE = "initialize"
    EXECUTE = "execute"
    FINALIZE = "finalize"


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


context = Context()
"""A process runs one instance, so there is one."""
