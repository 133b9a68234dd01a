"""
One module for each repository agent that a configuration may name; found by that name.

Each has a class `Agent` (see `core.agent`). Agents are told of a model's life in Triton's order; `engine.lifecycle`
does that. Unlike Triton's they cannot put another folder in the place of the model's.
"""

import pkgutil
from collections.abc import Iterable
from importlib import import_module

from charonia_runtime.core.agent import Agent, AgentFactory
from charonia_runtime.core.config import RepositoryAgent
from charonia_runtime.core.errors import InvalidArgumentError


def require_agents(agents: Iterable[RepositoryAgent], search_directory: str) -> None:
    """
    Raises InvalidArgumentError, Triton's text, for an agent that does not exist.

    `search_directory` is where the operator expects agents of their own (`--repoagent-directory`).
    """
    for agent in agents:
        if agent.name not in agent_names():
            raise InvalidArgumentError(
                f"unable to find 'libtritonrepoagent_{agent.name}.so' for repo agent '{agent.name}', searched: "
                f"{search_directory}"
            )


def make_agents(agents: Iterable[RepositoryAgent]) -> list[Agent]:
    """One of each, in their order; they exist. Raises InferenceError for parameters that cannot be."""
    return [_load(agent.name)(agent.parameters) for agent in agents]


def _load(name: str) -> AgentFactory:
    factory: AgentFactory = import_module(f"{__name__}.{name}").Agent
    return factory


def agent_names() -> list[str]:
    """Every agent that this folder holds."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))
