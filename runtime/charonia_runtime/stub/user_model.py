"""The user's `model.py`: imported once, its class made once, its functions called with the exceptions told apart."""

import asyncio
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from charonia_runtime.stub.model_config import ModelConfig


def import_model(path: str, module_name: str, search_paths: Sequence[str]) -> ModuleType:
    """
    Import the file as `module_name`, with `search_paths` at the end of the module path.

    `<version>.model` makes the version's folder a package, so that relative imports find its other files.
    """
    sys.path.extend(entry for entry in search_paths if entry not in sys.path)
    package_name, _, name = module_name.rpartition(".")
    folder = str(Path(path).parent)
    if package_name:
        package = ModuleType(package_name)
        package.__path__ = [folder]
        sys.modules[package_name] = package
    elif folder not in sys.path:
        sys.path.append(folder)
    if name != Path(path).stem:
        raise ImportError(f"{path} cannot be imported as {module_name}")
    __import__(module_name)
    return sys.modules[module_name]


def auto_complete(module: ModuleType, document: dict[str, Any], model_name: str) -> dict[str, Any] | None:
    """What `auto_complete_config` makes of the configuration; None when the model has no such function."""
    function = getattr(module.TritonPythonModel, "auto_complete_config", None)
    if function is None:
        return None
    completed = function(ModelConfig(document))
    if not isinstance(completed, ModelConfig):
        raise UnusableModelError(
            f"auto_complete_config function in model '{model_name}' must return a valid pb.ModelConfig object."
        )
    return completed.as_dict()


class UserModel:
    """One initialized `TritonPythonModel`."""

    def __init__(self, model: Any, path: str) -> None:
        self._model = model
        self._execute: Callable[[list[Any]], Any] | None = getattr(model, "execute", None)
        self._path = path
        self.check: Callable[[], Any] | None = getattr(model, "is_ready", None)
        """Tells whether the model can serve now."""
        self.asynchronous = inspect.iscoroutinefunction(self._execute)

    @classmethod
    def initialize(cls, module: ModuleType, arguments: Mapping[str, str]) -> "UserModel":
        model = module.TritonPythonModel()
        initialize = getattr(model, "initialize", None)
        if initialize is not None:
            initialize(dict(arguments))
        return cls(model, str(module.__file__))

    @classmethod
    def missing(cls) -> "UserModel":
        """What stands for the model until it is initialized."""
        return cls(None, "")

    def execute(self, requests: list[Any]) -> Any:
        """What the model's `execute` returns."""
        result = self._function()(requests)
        if type(result) is not list and inspect.iscoroutine(result):
            return asyncio.run(result)
        return result

    async def execute_async(self, requests: list[Any]) -> Any:
        return await self._function()(requests)

    def finalize(self) -> None:
        finalize = getattr(self._model, "finalize", None)
        if finalize is not None:
            finalize()

    def _function(self) -> Callable[[list[Any]], Any]:
        if self._execute is None:
            raise UnusableModelError(f"Python model {self._path} does not implement `execute` method.")
        return self._execute


class UnusableModelError(Exception):
    """The model lacks what every model must have; the message is shown as it is."""
