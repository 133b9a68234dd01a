"""What is said of models that a request cannot have, by whoever is asked for them: Triton's texts."""

from charonia_runtime.core.errors import NotFoundError, UnavailableError
from charonia_runtime.core.request import ANY_VERSION


def unknown_model(name: str) -> NotFoundError:
    """Nobody has heard of the model."""
    return NotFoundError(f"Request for unknown model: '{name}' is not found")


def unknown_version(name: str, version: int) -> NotFoundError:
    """The model has no such version, or no ready one where any would do."""
    what = "has no available versions" if version == ANY_VERSION else f"version {version} is not found"
    return NotFoundError(f"Request for unknown model: '{name}' {what}")


def unready_version(name: str, version: int) -> UnavailableError:
    """The version is known and does not serve now."""
    return UnavailableError(f"Request for unknown model: '{name}' version {version} is not at ready state")
