"""A model's parameters, and the backend's settings of the command line, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.parameters import boolean_of

_STRATEGY: Final = "execution_context_allocation_strategy"
_STRATEGIES: Final = ("STATIC", "ON_PROFILE_CHANGE")


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """`--backend-config=tensorrt,…`. Settings of how requests are gathered and threads wait have no effect here."""

    plugins: tuple[str, ...] = ()
    version_compatible: bool = False


def read_backend_settings(settings: Mapping[str, str]) -> BackendSettings:
    """Raises InvalidArgumentError for a value that is malformed."""
    return BackendSettings(
        plugins=tuple(path for path in settings.get("plugins", "").split(";") if path),
        version_compatible=boolean_of(settings, "version-compatible", default=False),
    )


def allocation_strategy(config: ModelConfig) -> str:
    """How contexts get their memory: for the largest profile at once, or for each as it is used."""
    value = config.parameters.get(_STRATEGY, _STRATEGIES[0])
    if value not in _STRATEGIES:
        raise InvalidArgumentError(
            f"Invalid value for '{_STRATEGY}': '{value}' for model instance '{config.name}'. Supported values are "
            "'STATIC' and 'ON_PROFILE_CHANGE'."
        )
    return value
