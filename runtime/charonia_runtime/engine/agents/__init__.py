"""
One module for each repository agent that a configuration may name; found by that name.

Each has a class `Agent` (see `core.agent`). Agents run in their order whenever a model is read to be loaded, before
anything else is made of its configuration. Unlike Triton's they only say yes or no: none replaces the model's folder,
none is told how the load ended.
"""

import pkgutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from charonia_runtime.core.agent import AgentFactory
from charonia_runtime.core.config import RepositoryAgent
from charonia_runtime.core.errors import InvalidArgumentError


def run_agents(agents: Sequence[RepositoryAgent], directory: Path, search_directory: str) -> None:
    """
    Let every agent look at the model in `directory`; blocks.

    Raises InferenceError, Triton's texts, for an agent that refuses it or does not exist. `search_directory` is where
    the operator expects agents of their own (`--repoagent-directory`).
    """
    for agent in agents:
        make = _find(agent.name)
        if make is None:
            raise InvalidArgumentError(
                f"unable to find 'libtritonrepoagent_{agent.name}.so' for repo agent '{agent.name}', searched: "
                f"{search_directory}"
            )
        make(agent.parameters).check(directory)


def _find(name: str) -> AgentFactory | None:
    if name not in agent_names():
        return None
    factory: AgentFactory = import_module(f"{__name__}.{name}").Agent
    return factory


def agent_names() -> list[str]:
    """Every agent that this folder holds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
