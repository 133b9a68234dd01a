"""What a frontends' process keeps in mind of the server's models, so that it finds them without asking."""

from collections.abc import Mapping
from typing import Any

from charonia_runtime.core.missing_models import unknown_model, unknown_version, unready_version
from charonia_runtime.core.request import ANY_VERSION
from charonia_runtime.core.server import ServedModel
from charonia_runtime.remote.documents import read_config, read_error, write_config

Versions = Mapping[int, ServedModel | None]
"""What serves each version of a model; None where nothing does."""


class ModelMirror:
    """Says what `find_model` of the server said when it told the last change."""

    __slots__ = ("_latest", "_models", "_refusals")

    def __init__(self) -> None:
        self._models: dict[str, Versions] = {}
        self._latest: dict[str, ServedModel] = {}
        self._refusals: dict[str, Mapping[str, Any]] = {}
        """What the server says of names that mean no model, or several."""

    def find(self, name: str, version: int) -> ServedModel:
        """Raises NotFoundError, UnavailableError or InvalidArgumentError."""
        if version == ANY_VERSION:
            latest = self._latest.get(name)
            if latest is not None:
                return latest
        versions = self._models.get(name)
        if versions is None:
            raise read_error(self._refusals[name]) if name in self._refusals else unknown_model(name)
        if version not in versions:
            raise unknown_version(name, version)
        served = versions[version]
        if served is None:
            raise unready_version(name, version)
        return served

    def update(self, name: str, document: Mapping[str, Any] | None) -> None:
        """Learn what `write_versions` or `write_error` wrote."""
        self._latest.pop(name, None)
        self._models.pop(name, None)
        self._refusals.pop(name, None)
        if document is None:
            return
        if "error" in document:
            self._refusals[name] = document
            return
        versions = self._models[name] = {
            int(number): None if config is None else ServedModel(read_config(config), int(number))
            for number, config in document.items()
        }
        ready = [number for number, served in versions.items() if served is not None]
        if ready:
            self._latest[name] = versions[max(ready)]  # type: ignore[assignment]  # the ready ones are not None


def write_versions(versions: Versions | None) -> dict[str, Any] | None:
    """What a mirror learns of a model."""
    if versions is None:
        return None
    return {str(number): None if served is None else write_config(served.config) for number, served in versions.items()}
