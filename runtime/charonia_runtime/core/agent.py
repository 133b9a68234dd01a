"""The seam to repository agents: what looks at a model's files before it is loaded."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Agent(Protocol):
    """One entry of `model_repository_agents`. Constructed as `Agent(parameters)`."""

    def check(self, directory: Path) -> None:
        """Look at the model's folder; blocks. Raises InferenceError when the model must not be loaded."""


class AgentFactory(Protocol):
    """The class `Agent` of a module of `engine/agents/`."""

    def __call__(self, parameters: Mapping[str, str]) -> Agent: ...
