"""What is said of models that a request cannot have, by whoever is asked for them: Triton's texts."""

from charonia_runtime.core.errors import InternalError, InvalidArgumentError, NotFoundError, UnavailableError
from charonia_runtime.core.request import ANY_VERSION


def unknown_model(name: str) -> NotFoundError:
    """Nobody has heard of the model."""
    return NotFoundError(f"Request for unknown model: '{name}' is not found")


def ambiguous_model(name: str, count: int) -> InvalidArgumentError:
    """Several repositories have a model of this name, and requests cannot say which of them they mean."""
    return InvalidArgumentError(
        f"There are {count} identifiers of model '{name}' in global map, model namespace must be provided to resolve "
        "ambiguity."
    )


def unidentified_model(name: str) -> NotFoundError:
    """Each model of this name was unloaded, where repositories may share names."""
    return NotFoundError(f"Identifier of model '{name}' is not found in global map")


def unknown_version(name: str, version: int) -> NotFoundError:
    """The model has no such version, or no ready one where any would do."""
    what = "has no available versions" if version == ANY_VERSION else f"version {version} is not found"
    return NotFoundError(f"Request for unknown model: '{name}' {what}")


def unready_version(name: str, version: int) -> UnavailableError:
    """The version is known and does not serve now."""
    return UnavailableError(f"Request for unknown model: '{name}' version {version} is not at ready state")


def unreadable_model(name: str) -> InternalError:
    """The files of a model that is to be loaded are not as they must be; the log has the cause."""
    return InternalError(f"failed to load '{name}', failed to poll from model repository")
