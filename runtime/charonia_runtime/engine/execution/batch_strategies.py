"""Finds a model's `batchstrategy.py`, loads it, and keeps what it raises from the requests of others."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, NotFoundError, UnsupportedError
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.scheduling import DynamicBatching
from charonia_runtime.core.strategy import STRATEGY_PARAMETER, BatchStrategy, BatchStrategyFactory
from charonia_runtime.engine.execution.model_paths import is_inside

logger = logging.getLogger(__name__)

_FILENAME = "batchstrategy.py"


def find_strategy(config: ModelConfig, files: ModelFiles) -> Path | None:
    """
    The file with the model's strategy; None where it has none.

    Raises InvalidArgumentError, NotFoundError or UnsupportedError for one that cannot be used; a library written for
    Triton is not left out silently.
    """
    named = config.parameters.get(STRATEGY_PARAMETER)
    if named is not None:
        return _named(config, files, named)
    if not isinstance(config.scheduling, DynamicBatching):
        return None
    for folder in (files.version_directory, files.directory, files.backend_directory / config.backend):
        if (folder / _FILENAME).is_file():
            return folder / _FILENAME
        library = (folder / _FILENAME).with_suffix(".so")
        if library.is_file():
            raise UnsupportedError(
                f"model '{config.name}' has the batching library '{library}', and shared libraries are not supported: "
                f"put a {_FILENAME} with a class BatchStrategy beside it"
            )
    return None


def _named(config: ModelConfig, files: ModelFiles, path: str) -> Path:
    if not isinstance(config.scheduling, DynamicBatching):
        raise InvalidArgumentError(
            f"'parameters[\"{STRATEGY_PARAMETER}\"]' of model '{config.name}' needs 'dynamic_batching': nothing else "
            "asks a strategy"
        )
    if not is_inside(path):
        raise InvalidArgumentError("Batching library path escapes model repository.")
    if not (files.directory / path).is_file():
        raise NotFoundError(f"Batching library path not found: {files.directory / path}")
    return files.directory / path


def find_allowed_strategy(config: ModelConfig, files: ModelFiles, *, allowed: bool) -> Path | None:
    """Find the file as `find_strategy` does. Raises also UnsupportedError for a strategy where none is `allowed`."""
    path = find_strategy(config, files)
    if path is not None and not allowed:
        raise UnsupportedError(
            f"model '{config.name}' has the batching strategy '{path}', whose code would run in the server's own "
            "process: start the server with --allow-batch-strategies=true if you trust whoever writes to the repository"
        )
    return path


def load_strategy(config: ModelConfig, files: ModelFiles, *, allowed: bool) -> "GuardedStrategy | None":
    """
    The model's strategy, made; None where it has none. Runs its code in this process.

    Raises UnsupportedError for a strategy where none is `allowed`, else InferenceError for one that cannot be used.
    """
    path = find_allowed_strategy(config, files, allowed=allowed)
    if path is None:
        return None
    module = ModuleType(f"batchstrategy_{config.name}_{files.version}")
    module.__file__ = str(path)
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102 - whoever owns the repository
        factory: BatchStrategyFactory = module.BatchStrategy
        strategy = factory(config.document)
    except Exception as error:
        raise InternalError(
            f"the batching strategy '{path}' of model '{config.name}' failed to load: {type(error).__name__}: {error}"
        ) from error
    for name in ("initialize", "include"):
        if not callable(getattr(strategy, name, None)):
            raise InvalidArgumentError(f"the class BatchStrategy of '{path}' must have a method '{name}'")
    return GuardedStrategy(strategy, f"the batching strategy of model '{config.name}' failed")


class GuardedStrategy:
    """A `BatchStrategy` that never raises. The log has the first of several failures in a row."""

    def __init__(self, strategy: BatchStrategy, complaint: str) -> None:
        self._initialize = strategy.initialize
        self._include = strategy.include
        self._finalize: Callable[[], None] | None = getattr(strategy, "finalize", None)
        self._close: Callable[[], None] | None = getattr(strategy, "close", None)
        self._complaint = complaint
        self._broken = False

    def initialize(self) -> None:
        self._try(self._initialize)

    def include(self, request: InferenceRequest) -> bool:
        try:
            included = bool(self._include(request))
        except Exception as error:  # noqa: BLE001 - it is the model's code
            self._complain(error)
            return False
        self._broken = False
        return included

    def finalize(self) -> None:
        if self._finalize is not None:
            self._try(self._finalize)

    def close(self) -> None:
        if self._close is not None:
            self._try(self._close)

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - it is the model's code
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._broken:
            logger.error(self._complaint, exc_info=error)
        self._broken = True
