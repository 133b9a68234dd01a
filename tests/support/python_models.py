"""Python models for tests: written to a folder, loaded as the engine does it, with a server to call."""

import asyncio
import textwrap
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from charonia_runtime.backends.python import Backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.custom_metrics import CustomMetrics
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.server import InferenceServer
from tests.support.batches import RecordedBatch, a_batch
from tests.support.configs import a_config, a_tensor

HEAD = """
import os, signal, sys, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
"""
ECHO = """
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())])
            for r in requests
        ]
"""


def write_model(directory: Path, body: str, *, head: str = HEAD, version: int = 1) -> Path:
    """Write `model.py` with a class of `body`, which is indented as methods are or as a whole module (`head=""`)."""
    path = directory / str(version) / "model.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + body if head else textwrap.dedent(body))
    return path


def an_echo_config(datatype: DataType = DataType.FP32, **changes: Any) -> ModelConfig:
    """IN to OUT, without batching."""
    values: dict[str, Any] = {
        "name": "echo",
        "backend": "python",
        "max_batch_size": 0,
        "inputs": (a_tensor("IN", datatype, -1),),
        "outputs": (a_tensor("OUT", datatype, -1),),
    }
    return a_config(**(values | changes))


async def until(condition: Callable[[], bool]) -> None:
    """Returns when `condition` holds. For what happens in other processes, which set no events here."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.002)


class PythonModel:
    """One version with one instance; an asynchronous context manager."""

    def __init__(
        self,
        directory: Path,
        body: str = ECHO,
        *,
        config: ModelConfig | None = None,
        server: InferenceServer | None = None,
        settings: Mapping[str, str] | None = None,
        head: str = HEAD,
        reachable: bool = True,
        auto_complete: bool = False,
    ) -> None:
        write_model(directory, body, head=head)
        self.config = config or an_echo_config()
        self.metrics = CustomMetrics()
        self.directory = directory
        self._server = server
        self._settings = settings or {}
        self._reachable = reachable
        self._auto_complete = auto_complete
        self._threads = ThreadPoolExecutor(1)
        self.instance: Any = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        files = ModelFiles(
            self.config.name, 1, self.directory, self.directory / "1", self._settings, server=self._server,
            call_soon=loop.call_soon_threadsafe if self._reachable else None, custom_metrics=self.metrics,
        )  # fmt: skip
        try:
            await loop.run_in_executor(self._threads, self._load, files)
        except BaseException:
            self._threads.shutdown()
            raise
        return self

    def _load(self, files: ModelFiles) -> None:
        self.backend = Backend(files)
        try:
            if self._auto_complete:
                self.config = self.backend.auto_complete(self.config)
            self.backend.load(self.config)
            self.instance = self.backend.create_instance(Placement(f"{self.config.name}_0", InstanceKind.CPU))
        except BaseException:
            self.backend.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self.instance is not None:
            instance, self.instance = self.instance, None
            await instance.close()
            await asyncio.to_thread(self.backend.close)
            self._threads.shutdown()

    async def execute(self, batch: RecordedBatch, *, complete: bool = True) -> RecordedBatch:
        """Run a batch until the instance is free, and until everything is answered unless told otherwise."""
        free = asyncio.Event()
        self.instance.begin(batch, free.set)
        await free.wait()
        batch.flush()
        if complete:
            await until(lambda: batch.complete)
        return batch

    async def run(self, *arrays: np.ndarray[Any, Any]) -> RecordedBatch:
        """Run a batch of one request for each array."""
        return await self.execute(a_batch(self.config, *[{"IN": array} for array in arrays]))

    async def error(self, array: np.ndarray[Any, Any] | None = None) -> str:
        """The text that a request is answered with, which must be an error."""
        batch = await self.run(np.zeros(1, np.float32) if array is None else array)
        (response,) = batch.responses_to(0)
        assert response.error is not None
        return response.error.message

    async def echoes(self) -> bool:
        """Whether the instance answers, as a model that echoes does."""
        sent = np.arange(3, dtype=np.float32)
        batch = await self.run(sent)
        return bool((batch.arrays_of(0)["OUT"] == sent).all())
