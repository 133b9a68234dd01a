"""A backend's model, loaded and executed the way the engine does it, without the engine; in a thread or in none."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import Backend, ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import InferenceError, InternalError
from tests.support.batches import RecordedBatch, a_batch

CPU = Placement("m_0", InstanceKind.CPU)


class LoadedModel:
    """One version with one instance; an asynchronous context manager. `directory` is the model's folder."""

    def __init__(
        self,
        backend_class: type[Backend],
        directory: Path,
        config: ModelConfig,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        call_soon = asyncio.get_running_loop().call_soon_threadsafe
        self.files = ModelFiles(
            config.name, 1, directory, directory / "1", settings or {}, gpus=(0,), call_soon=call_soon
        )
        self.config = config
        self._class = backend_class
        # An instance runs in one and the same thread from its creation to its end.
        self._thread = ThreadPoolExecutor(1)

    async def __aenter__(self) -> Self:
        await self._in_thread(self._load)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._class.traits.on_event_loop:
            await self.instance.close()
        else:
            await self._in_thread(self.instance.close)
        await self._in_thread(self.backend.close)
        self._thread.shutdown()

    async def execute(self, batch: RecordedBatch) -> RecordedBatch:
        """Run the batch; whatever it raises becomes the answer, as in the engine."""
        if self._class.traits.on_event_loop:
            free = asyncio.Event()
            self.instance.begin(batch, free.set)
            await free.wait()
        else:
            await self._in_thread(execute, self.instance, batch)
        batch.flush()
        return batch

    def _load(self) -> None:
        self.backend = self._class(self.files)
        self.config = self.backend.auto_complete(self.config)
        self.backend.load(self.config)
        on_gpu = any(group.kind is InstanceKind.GPU for group in self.config.instance_groups)
        placement = Placement(f"{self.config.name}_0", InstanceKind.GPU if on_gpu else InstanceKind.CPU)
        self.instance: Any = self.backend.create_instance(placement)

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


class Loaded:
    """A model in one folder, in this thread: completed at once, loaded by `load` with one instance."""

    backend_name: ClassVar[str]

    def __init__(self, directory: Path, config: ModelConfig, **settings: str) -> None:
        files = ModelFiles(config.name, 1, directory, directory / "1", settings)
        self.backend: Any = load_backend(self.backend_name)(files)
        self.config: ModelConfig = self.backend.auto_complete(config)

    def load(self) -> Self:
        self.backend.load(self.config)
        self.instance: Any = self.backend.create_instance(CPU)
        return self

    def run(self, *requests: Mapping[str, np.ndarray[Any, Any]], **named: Any) -> RecordedBatch:
        """One batch of these requests. `named` are the arguments of `a_batch`."""
        return execute(self.instance, a_batch(self.config, *requests, **named))


def execute(instance: Any, batch: RecordedBatch) -> RecordedBatch:
    """Run the batch in this thread; whatever it raises becomes the answer of the requests that have none."""
    try:
        instance.execute(batch)
    except InferenceError as error:
        batch.fail(error)
    except Exception as error:  # noqa: BLE001 - as the engine's instance threads do
        batch.fail(InternalError(str(error)))
    batch.flush()
    return batch
