"""The seam below the engine: all that a backend must do. A backend is one module of `backends/`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.custom_metrics import CustomMetrics
from charonia_runtime.core.server import InferenceServer


@dataclass(frozen=True, slots=True)
class BackendTraits:
    """What the engine must know of a backend before it makes one."""

    default_model_filename: str = ""
    default_cpu_instances: int = 1
    """Instances of a CPU group whose configuration gives no count."""
    preferred_kind: InstanceKind = InstanceKind.AUTO
    """The kind of instances where the configuration has no instance group."""
    optional_inputs: bool = False
    """Whether configurations may mark inputs as optional."""
    parallel_instances: bool = True
    """Whether instances of one model may be created at the same time."""
    any_thread: bool = False
    """
    Whether a free instance may execute in another thread than its own. The engine then runs executions that take less
    than the hop to a thread on the event loop's thread.
    """
    device_inputs: bool = False
    """
    Whether instances on a GPU take inputs that lie on one (`Tensor.on_device`), whichever it is. Others get them on the
    host. Any backend may give outputs that lie on a device.
    """
    python_runtime: bool = False
    """
    Whether the backend brings `python_runtime/model.py` for models with `runtime: "model.py"`. The python backend runs
    it.
    """
    on_event_loop: bool = False
    """Whether `create_instance` gives a `LoopInstance` instead of an `Instance`."""
    load_runs_no_code: bool = False
    """
    Whether `auto_complete` and `load` read model files and run nothing of them: `charonia check` calls both then.
    """
    answers_later: bool = False
    """Whether such an instance may answer requests after their execution although the model is not decoupled."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where the version to load lies and what the command line says to its backend."""

    name: str
    version: int
    directory: Path
    """The model's folder, with labels and configuration."""
    version_directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    """`--backend-config` settings of this backend, global ones included."""
    gpus: tuple[int, ...] = ()
    """Ids of the GPUs that may be used."""
    server: InferenceServer | None = None
    """The server that loads the model, for models that call other models."""
    call_soon: Callable[..., object] | None = None
    """Runs a function on the server's event loop, from any thread; None where no loop runs yet."""
    backend_directory: Path = Path("/opt/tritonserver/backends")
    """Where `<backend>/backend.py`, or `<backend>/model.py`, lies for backends of the operator's own."""
    custom_metrics: CustomMetrics = field(default_factory=CustomMetrics)
    """Where models keep metrics of their own."""


@dataclass(frozen=True, slots=True)
class FileFault:
    """What is wrong with a file of a version, as far as reading it tells."""

    path: Path
    message: str


class FileInspector(Protocol):
    """What the class of a backend may have beside `Backend`'s methods, for `charonia check`: a look at its files."""

    @staticmethod
    def inspect_files(files: ModelFiles, config: ModelConfig) -> Iterator[FileFault]:
        """What would keep the version from being loaded, without running any of it. Blocks."""
        ...


class Instance(Protocol):
    """One copy of a model that executes one batch at a time, always in the same thread."""

    def execute(self, batch: Batch) -> None:
        """
        Answer every request of the batch (`Batch.respond`, `Batch.scatter` or `Batch.fail`).

        May raise: an `InferenceError` goes to the requests that are not answered yet as it is, anything else as an
        `InternalError` with the exception's text.
        """

    def close(self) -> None:
        """Free what the instance holds. Called once, in the instance's thread, after the last batch."""


class LoopInstance(Protocol):
    """One copy of a model that runs elsewhere, in another process say; driven from the event loop without a thread."""

    @property
    def ready(self) -> bool:
        """Whether it can run a batch now; one whose process died cannot until there is another."""

    async def agrees(self) -> bool:
        """Whether the model itself says that it is ready; True where it has no say."""

    def begin(self, batch: Batch, done: Callable[[], None], *, more: bool = False) -> None:
        """
        Start a batch, without blocking. Call `done` on the event loop once its execution is over.

        The batch's requests are answered before that, or later where the model is decoupled or the backend says that
        its instances may do so. With `more`, another batch
        follows at once, to be executed after this one: what starts them may wait for the last, which has no `more`.
        """

    def note_cancelled(self) -> None:
        """A request that an instance of the model may be running was flagged as cancelled."""

    def wind_up(self) -> None:
        """It gets no batches any more but those that wait already: it may give up what will never be answered."""

    async def close(self) -> None:
        """Free what the instance holds. Called once, after the last batch."""


class Backend(Protocol):
    """
    One loaded version of a model; made anew for each, so it may keep weights that its instances share.

    Constructed as `Backend(files)` in a loader thread, then `auto_complete`, `load`, `create_instance` (more than
    once), and at the end `close`, after all instances are closed. All may block and raise `InferenceError`.
    """

    traits: ClassVar[BackendTraits]

    def __init__(self, files: ModelFiles) -> None: ...

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        """
        Fill in what the model file tells and `config` leaves open.

        May change only inputs, outputs, max_batch_size, scheduling and decoupled, and add parameters; the engine
        renders the document anew.
        """

    def load(self, config: ModelConfig) -> None:
        """Check the model file against the final configuration and load what instances share."""

    def create_instance(self, placement: Placement) -> Instance | LoopInstance: ...

    def close(self) -> None: ...
