"""
`FakeBackend`: a backend whose executions are functions, under the test's control.

    backend = fake_backend(lambda batch: batch.scatter({"OUTPUT": batch.gather("INPUT")}))
    model = await Model.load(a_folder(tmp_path), config, backend)
    backend.made[0].instances[0].batches              # rows of every batch, as executed
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import ModelConfig, Placement

Execute = Callable[[Batch], None]


def echo(batch: Batch) -> None:
    """Answer with the inputs: INPUT0 comes back as OUTPUT0."""
    batch.mark_inputs_ready()
    arrays = {spec.name: batch.gather(spec.name) for spec in batch.config.inputs}
    batch.scatter({name.replace("IN", "OUT"): array for name, array in arrays.items() if array is not None})


class FakeInstance:
    """Executes by the backend's function and remembers what it saw."""

    def __init__(self, backend: "FakeBackend", placement: Placement) -> None:
        self.backend = backend
        self.placement = placement
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()
        self.closed = False

    def execute(self, batch: Batch) -> None:
        assert not self.closed
        self.batches.append([request.batch_size for request in batch.requests])
        self.threads.add(threading.get_ident())
        self.backend.execute(batch)

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class FakeLoopInstance:
    """Begins by the backend's function; the test ends batches through `running`."""

    def __init__(self, backend: "FakeBackend", placement: Placement) -> None:
        self.backend = backend
        self.placement = placement
        self.running: list[tuple[Batch, Callable[[], None]]] = []
        self.more: list[bool] = []
        self.ready = True
        self.willing = True
        self.winding_up = False
        self.cancellations = 0
        self.closed = False

    async def agrees(self) -> bool:
        return self.willing

    def note_cancelled(self) -> None:
        self.cancellations += 1

    def wind_up(self) -> None:
        self.winding_up = True

    def begin(self, batch: Batch, done: Callable[[], None], *, more: bool = False) -> None:
        assert not self.closed
        self.more.append(more)
        self.running.append((batch, done))
        self.backend.execute(batch)

    async def close(self) -> None:
        assert not self.closed
        self.closed = True


class FakeBackend:
    """One made by each load; the class keeps them in `made`. Steps named in `failures` raise what it says."""

    traits: ClassVar[BackendTraits] = BackendTraits()
    made: "ClassVar[list[FakeBackend]]"
    execute: ClassVar[Callable[[Any], None]]
    failures: ClassVar[dict[str, Exception]]

    def __init__(self, files: ModelFiles) -> None:
        self.files = files
        self.steps: list[str] = []
        self.instances: list[Any] = []
        self.closed = False
        self.made.append(self)
        self._step("construct")

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        self._step("auto_complete")
        return config

    def load(self, config: ModelConfig) -> None:
        self._step("load")
        self.config = config

    def create_instance(self, placement: Placement) -> Any:
        self._step("create_instance")
        instance_class = FakeLoopInstance if self.traits.on_event_loop else FakeInstance
        instance = instance_class(self, placement)
        self.instances.append(instance)
        return instance

    def close(self) -> None:
        assert all(instance.closed for instance in self.instances)
        self.closed = True
        self._step("close")

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name in self.failures:
            raise self.failures[name]


def fake_backend(execute: Execute = echo, *, failures: dict[str, Exception] | None = None, **traits: Any) -> Any:
    """A backend class of the test's own."""
    return type(
        "OneFakeBackend",
        (FakeBackend,),
        {
            "execute": staticmethod(execute),
            "traits": BackendTraits(**traits),
            "made": [],
            "failures": failures or {},
        },
    )


class Gate:
    """An execution that waits until the test lets it through: `execute` of a blocking instance."""

    def __init__(self, execute: Execute = echo) -> None:
        self._execute = execute
        self._permits = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)

    def __call__(self, batch: Batch) -> None:
        self.entered.release()
        assert self._permits.acquire(timeout=20)
        self._execute(batch)

    def open(self, executions: int = 1) -> None:
        """Let so many executions through."""
        self._permits.release(executions)


def a_folder(directory: Path, name: str = "simple", version: int = 1, **fields: Any) -> ModelFiles:
    """The files of a version in a model folder at `directory`."""
    version_directory = directory / str(version)
    version_directory.mkdir(exist_ok=True)
    return ModelFiles(name, version, directory, version_directory, **fields)
