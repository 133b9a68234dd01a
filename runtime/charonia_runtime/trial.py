"""
Models loaded for trial, each in a process of its own with a limit of memory: what `charonia check --load` does.

A model that crashes, hangs or eats the memory is a fault of that model; the others are tried all the same.
"""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from charonia_runtime.backends import load_backend
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.engine.engine import Engine
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.engine.options import EngineOptions
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.shared_memory import SharedMemoryRegistry
from charonia_runtime.engine.trace_options import TraceStart
from charonia_runtime.environment import Environment
from charonia_runtime.logs import Log, LogOptions

_ROOT = Path(__file__).resolve().parents[1]
_MEBIBYTE = 1 << 20
_MEMORY_WORDS = ("alloc", "memory")


@dataclass(frozen=True, slots=True)
class Trial:
    """What to load, and how much it may take."""

    model: str
    directories: tuple[str, ...]
    backend_directory: str
    backend_config: tuple[str, ...]
    model_config_name: str
    auto_complete: bool
    allow_batch_strategies: bool
    limit_mebibytes: int
    """Private memory of each process that the load uses; 0 sets no limit."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What became of a model. `mebibytes` and `seconds` are what the load took; `error` is empty where it went well."""

    model: str
    error: str = ""
    mebibytes: int = 0
    seconds: float = 0.0


def try_model(trial: Trial, timeout_seconds: float) -> TrialResult:
    """Load the model of `trial` in a child, unload it and end the child. Blocks. What a model prints is dropped."""
    reading, writing = os.pipe()
    path = os.environ.get("PYTHONPATH")
    command = [sys.executable, "-P", "-m", "charonia_runtime", "trial", str(writing), json.dumps(asdict(trial))]
    with subprocess.Popen(  # noqa: S603 - this program
        command,
        env={**os.environ, "PYTHONPATH": f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT)},
        pass_fds=[writing],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        os.close(writing)
        try:
            code = child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            code = None
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # the processes of a model that outlive it, too
    with os.fdopen(reading, "rb") as answer:
        told = answer.read()
    if told:
        return _limited(TrialResult(**json.loads(told)), trial)
    if code is None:
        return TrialResult(trial.model, f"it has not loaded within {timeout_seconds:g} s")
    ending = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return _limited(TrialResult(trial.model, f"the process that loads it ended with {ending}: out of memory?"), trial)


def _limited(result: TrialResult, trial: Trial) -> TrialResult:
    """The result with the limit in its error, where that is likely to be the cause."""
    if not trial.limit_mebibytes or not any(word in result.error.lower() for word in _MEMORY_WORDS):
        return result
    text = f"{result.error} (the limit is {trial.limit_mebibytes} MiB for each process)"
    return TrialResult(result.model, text, result.mebibytes, result.seconds)


def run_trial(arguments: Sequence[str]) -> int:
    """Be the child of `try_model`: load what the argument says and write the result to the descriptor."""
    descriptor, text = arguments
    trial = Trial(**json.loads(text))
    if trial.limit_mebibytes:
        limit = trial.limit_mebibytes * _MEBIBYTE
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        result = asyncio.run(_load(trial))
    except (InferenceError, MemoryError) as error:
        result = TrialResult(trial.model, str(error) or "MemoryError: out of memory")
    with os.fdopen(int(descriptor), "w") as answer:
        json.dump(asdict(result), answer)
    return 0


async def _load(trial: Trial) -> TrialResult:
    shared_memory = SharedMemoryRegistry()
    options = EngineOptions(
        model_repositories=tuple(trial.directories),
        model_control_mode="explicit",
        exit_on_error=False,
        disable_auto_complete_config=not trial.auto_complete,
        model_config_name=trial.model_config_name,
        backend_directory=trial.backend_directory,
        backend_config=tuple(trial.backend_config),
    )
    engine = Engine(
        options,
        partial(load_backend, directory=Path(trial.backend_directory)),
        partial(
            Model.load,
            allow_strategies=trial.allow_batch_strategies,
            resolve_memory=shared_memory.resolve,
        ),
        shared_memory=shared_memory,
        settings=partial(SettingsStore, Log(LogOptions()), TraceStart()),
        gpus=Environment.read(os.environ).gpus,
    )
    await engine.start()
    before, began = _used_bytes(os.getpid()), time.monotonic()
    error = ""
    try:
        await engine.load_model(trial.model)
    except InferenceError as failure:
        reasons = [entry.reason for entry in await engine.repository_index() if entry.name == trial.model]
        error = next((reason for reason in reasons if reason), failure.message)
    seconds, taken = time.monotonic() - began, _used_bytes(os.getpid()) - before
    with suppress(InferenceError):  # what matters is known
        await engine.stop()
    return TrialResult(trial.model, error, max(taken, 0) // _MEBIBYTE, round(seconds, 3))


def _used_bytes(pid: int) -> int:
    """Memory of a process and its descendants: what they share is counted once."""
    total = 0
    with suppress(OSError):  # one of them has just ended
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) << 10
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(_used_bytes(int(child)) for child in (task / "children").read_text().split())
    return total


def available_mebibytes(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory that a trial may take: what is free in the machine, or in the container if that is less; 0 if unknown."""
    found: list[int] = []
    with suppress(OSError, ValueError):
        (line,) = (line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:"))
        found.append(int(line.split()[1]) >> 10)
    with suppress(OSError, ValueError):
        limit, current = ((cgroup / name).read_text() for name in ("memory.max", "memory.current"))
        found.append(max(int(limit) - int(current), 0) // _MEBIBYTE)
    return min(found, default=0)
