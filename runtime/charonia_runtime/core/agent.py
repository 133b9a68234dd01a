"""The seam to repository agents: what looks at a model's files before it is loaded, and hears what becomes of it."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Protocol


class AgentAction(Enum):
    """What happens to a model; Triton's `TRITONREPOAGENT_ActionType`. LOAD is always first, and comes once."""

    LOAD = "LOAD"
    LOAD_COMPLETE = "LOAD_COMPLETE"
    LOAD_FAIL = "LOAD_FAIL"
    UNLOAD = "UNLOAD"
    UNLOAD_COMPLETE = "UNLOAD_COMPLETE"


class Agent(Protocol):
    """One entry of `model_repository_agents`, for one load of its model. Constructed as `Agent(parameters)`."""

    def act(self, action: AgentAction, directory: Path) -> None:
        """
        Do what is to be done with the model in `directory`; blocks.

        Raises InferenceError on LOAD when the model must not be loaded. What later actions raise is only logged.
        """


class AgentFactory(Protocol):
    """The class `Agent` of a module of `engine/agents/`."""

    def __call__(self, parameters: Mapping[str, str]) -> Agent: ...
