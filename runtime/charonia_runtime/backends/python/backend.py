"""One loaded version of a Python model: where its code lies, what its configuration becomes, its instances."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from charonia_runtime.backends.python.calls import StubCalls
from charonia_runtime.backends.python.completion import merge
from charonia_runtime.backends.python.environment import ENVIRONMENT_PARAMETER, find_interpreter
from charonia_runtime.backends.python.instance import PythonInstance, Siblings
from charonia_runtime.backends.python.output_check import OutputCheck
from charonia_runtime.backends.python.settings import check_parameters, read_settings
from charonia_runtime.backends.python.source import MODEL_FILE, inspect_source, locate_code
from charonia_runtime.backends.python.stub_process import StubProcess
from charonia_runtime.core.backend import BackendTraits, FileFault, LoopInstance, ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.scheduling import SequenceBatching
from charonia_runtime.ipc.frames import FrameKind

_NAME = "python"
_KINDS = {InstanceKind.GPU: "GPU", InstanceKind.CPU: "CPU", InstanceKind.MODEL: "MODEL"}


class Backend:
    """
    Runs `model.py` of the model, or that of a backend written in Python, in child processes.

    Such a backend is `<backend directory>/<name>/model.py`, or the `python_runtime/model.py` of one of our own; the
    models that name it bring only data.
    """

    traits: ClassVar[BackendTraits] = BackendTraits(
        default_model_filename=MODEL_FILE, optional_inputs=True, on_event_loop=True, answers_later=True
    )

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._settings = read_settings(files.settings)
        self._config = ModelConfig(files.name)
        self._siblings = Siblings(OutputCheck(self._config, files.version))
        self._spare: tuple[StubProcess, StubCalls] | None = None

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        """Let the model's `auto_complete_config` fill in its configuration, in a process of its own."""
        name = f"{config.name}_0"
        stub, calls = self._start(name, config)
        document = {**locate_code(self._files, config), "config": dict(config.document)}
        try:
            answer = stub.ask(FrameKind.AUTO_COMPLETE, document, FrameKind.COMPLETED, calls.serve)
        except BaseException:
            self._end(stub, calls)
            raise
        completed = answer.get("config")
        if completed is None:
            # It has imported the model and nothing else: as good a start of the first instance as any.
            self._spare = (stub, calls)
            return config
        self._end(stub, calls)
        return merge(config, completed)

    def load(self, config: ModelConfig) -> None:
        check_parameters(config)
        find_interpreter(config.parameters, self._files.directory, self._settings.interpreter)
        locate_code(self._files, config)
        self._config = config
        self._siblings = Siblings(OutputCheck(config, self._files.version))

    def create_instance(self, placement: Placement) -> LoopInstance:
        spare, self._spare = self._spare, None
        first = [spare] if spare is not None and spare[0].name == placement.name else []
        if spare is not None and not first:
            self._end(*spare)

        def start() -> tuple[StubProcess, StubCalls]:
            stub, calls = first.pop() if first else self._start(placement.name, self._config)
            try:
                answer = stub.ask(FrameKind.INITIALIZE, self._instance(placement), FrameKind.INITIALIZED, calls.serve)
            except BaseException:
                self._end(stub, calls)
                raise
            stub.has_check = bool(answer.get("has_check"))
            return stub, calls

        return PythonInstance(
            placement.name, self._config, start, self._files.call_soon, self._siblings,
            unload_seconds=self._settings.unload_seconds,
        )  # fmt: skip

    @staticmethod
    def inspect_files(files: ModelFiles, config: ModelConfig) -> Iterator[FileFault]:
        """Mistakes in `model.py`. Its imports are looked up only where it runs in the server's own environment."""
        code = locate_code(files, config)
        elsewhere = ENVIRONMENT_PARAMETER in config.parameters
        elsewhere = elsewhere or read_settings(files.settings).interpreter != sys.executable
        paths = None if elsewhere else code["search_paths"]
        yield from inspect_source(Path(code["model_file"]), paths)

    def close(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            self._end(*spare)

    def _start(self, name: str, config: ModelConfig) -> tuple[StubProcess, StubCalls]:
        interpreter = find_interpreter(config.parameters, self._files.directory, self._settings.interpreter)
        stub = StubProcess(name, interpreter, self._settings)
        return stub, StubCalls(stub, self._files, config.name)

    def _end(self, stub: StubProcess, calls: StubCalls) -> None:
        calls.close()
        stub.end()

    def _instance(self, placement: Placement) -> dict[str, Any]:
        """What the child needs to initialize the model."""
        config, files = self._config, self._files
        return {
            **locate_code(files, config),
            "instance_name": placement.name,
            "decoupled": config.decoupled,
            "iterative": isinstance(config.scheduling, SequenceBatching) and config.scheduling.iterative,
            "output_names": [output.name for output in config.outputs],
            "arguments": {
                "model_config": json.dumps(dict(config.document), separators=(",", ":")),
                "model_instance_kind": _KINDS.get(placement.kind, "CPU"),
                "model_instance_name": placement.name,
                "model_instance_device_id": str(placement.device_id),
                "model_repository": str(files.directory),
                "model_version": str(files.version),
                "model_name": config.name,
                **self._told(),
            },
        }

    def _told(self) -> dict[str, str]:
        """What `--backend-config` says to a backend that is written in Python. Triton tells such backends nothing."""
        if self._config.backend == _NAME:
            return {}
        return {"backend_config": json.dumps(dict(self._files.settings))}
