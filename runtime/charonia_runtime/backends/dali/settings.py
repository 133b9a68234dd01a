"""The parameters of a model's configuration and the settings of the backend, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.parameters import boolean_of, integer_of


@dataclass(frozen=True, slots=True)
class Settings:
    """`threads` of 0 leaves it to the pipeline; `split` names the outputs whose samples' first axis becomes rows."""

    threads: int = 0
    split: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """What `--backend-config=dali,…` says."""

    release_after_unload: bool = False
    plugin_libraries: tuple[str, ...] = ()


def read_settings(parameters: Mapping[str, str], model: str) -> Settings:
    """Raises InvalidArgumentError for a value that is malformed."""
    threads = integer_of(parameters, "num_threads", 0)
    if threads < 0:
        raise InvalidArgumentError(f"parameter 'num_threads' of DALI model '{model}' must not be negative")
    return Settings(threads, frozenset(_listed(parameters.get("split_along_outer_axis", ""))))


def read_backend_settings(settings: Mapping[str, str]) -> BackendSettings:
    """Raises InvalidArgumentError for a value that is malformed."""
    release = boolean_of(settings, "release_after_unload", default=False)
    return BackendSettings(release, _listed(settings.get("plugin_libs", "")))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(":") if part)
