"""The blocking part of loading a model version: make its backend, complete and check its configuration, load."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from charonia_runtime.core.backend import Backend, Instance, LoopInstance, ModelFiles
from charonia_runtime.core.config import ModelConfig, Placement
from charonia_runtime.core.errors import InferenceError, InternalError
from charonia_runtime.core.instances import placements, resolve_instance_groups
from charonia_runtime.core.validation import (
    refuse_unsupported,
    validate_optional_inputs,
    validate_states,
    validate_tensors,
)
from charonia_runtime.engine.execution.answers import AnswerFinisher, read_labels
from charonia_runtime.engine.execution.batch_strategies import GuardedStrategy, load_strategy
from charonia_runtime.engine.execution.initial_states import read_initial_states
from charonia_runtime.engine.execution.warmup import Warmup, read_warmups
from charonia_runtime.engine.schedulers.base import Scheduler, make_scheduler
from charonia_runtime.protocols.model_config import complete

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LoadedBackend:
    """A version that is loaded but has no instances yet."""

    files: ModelFiles
    backend: Backend
    config: ModelConfig
    scheduler: Scheduler
    finisher: AnswerFinisher
    warmups: tuple[Warmup, ...]
    strategy: GuardedStrategy | None = None

    def create_instance(self, placement: Placement) -> Instance | LoopInstance:
        """Blocks. Raises InferenceError."""
        return _translated(lambda: self.backend.create_instance(placement))

    def close(self) -> None:
        """Free what the version holds, once its instances are closed. Blocks. Raises what the backend raises."""
        if self.strategy is not None:
            self.strategy.close()
        self.backend.close()

    @property
    def placements(self) -> Sequence[Placement]:
        return placements(self.config)


def load_backend(
    files: ModelFiles,
    config: ModelConfig,
    backend_class: type[Backend],
    *,
    auto_complete: bool,
    allow_strategies: bool,
) -> LoadedBackend:
    """Everything up to the instances, in a loader thread. Raises InferenceError; then the backend is closed."""
    backend = _translated(lambda: backend_class(files))
    try:
        return _translated(
            lambda: _load(backend, files, config, auto_complete=auto_complete, allow_strategies=allow_strategies)
        )
    except InferenceError:
        backend.close()
        raise


def _load(
    backend: Backend, files: ModelFiles, config: ModelConfig, *, auto_complete: bool, allow_strategies: bool
) -> LoadedBackend:
    if auto_complete:
        config = backend.auto_complete(config)
    config = complete(config)
    refuse_unsupported(config)
    validate_tensors(config)
    validate_optional_inputs(config, backend.traits)
    config = complete(resolve_instance_groups(config, backend.traits, files.gpus))
    validate_states(config)
    finisher = AnswerFinisher(config, read_labels(files.directory, config))
    warmups = read_warmups(config, files.directory)
    strategy = load_strategy(config, files, allowed=allow_strategies)
    with ExitStack() as failed:
        if strategy is not None:
            failed.callback(strategy.close)
        scheduler = make_scheduler(config, read_initial_states(config, files.directory), strategy)
        backend.load(config)
        failed.pop_all()
    return LoadedBackend(files, backend, config, scheduler, finisher, warmups, strategy)


def _translated(call: Callable[[], Result]) -> Result:
    """What `call` returns; a library's exception becomes an InternalError with its text."""
    try:
        return call()
    except InferenceError:
        raise
    except Exception as error:
        raise InternalError(str(error) or type(error).__name__) from error
