"""Which interpreter a model runs in, and how it is started: the server's own, or one that the model brings."""

import fcntl
import hashlib
import os
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from charonia_runtime.core.errors import InternalError

ENVIRONMENT_PARAMETER = "EXECUTION_ENV_PATH"
_MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """How to start Python. `folder` is the environment to activate first; None for none."""

    path: str
    folder: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, script: Path, arguments: list[str]) -> list[str]:
        """What to execute so that `script` runs with `arguments`, in a process that keeps its id."""
        words = [self.path, str(script), *arguments]
        if self.folder is None:
            return words
        activate = shlex.quote(str(self.folder / "bin" / "activate"))
        return ["/bin/bash", "-c", f"source {activate} && exec {shlex.join(words)}"]


def find_interpreter(parameters: Mapping[str, str], model_directory: Path, default: str) -> Interpreter:
    """
    The interpreter of a model: `default`, or that of the environment its parameter names.

    An archive is unpacked once, into a folder of the temporary directory that later servers find again. Raises
    InternalError with Triton's texts when the path is no environment.
    """
    value = parameters.get(ENVIRONMENT_PARAMETER, "")
    if not value:
        return Interpreter(default)
    path = Path(value.replace(_MODEL_DIRECTORY, str(model_directory)))
    if not path.exists():
        raise InternalError(f"Failed to get the canonical path for {path}.")
    path = path.resolve()
    folder = path if path.is_dir() else _unpack(path)
    if not (folder / "bin" / "activate").exists():
        raise InternalError(
            f"Path {folder}/bin/activate does not exist. The Python environment should contain an 'activate' script."
        )
    libraries = [str(folder / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return Interpreter(str(_python(folder)), folder, {"LD_LIBRARY_PATH": ":".join(libraries)})


def _python(folder: Path) -> Path:
    for name in ("python", "python3"):
        if (folder / "bin" / name).exists():
            return folder / "bin" / name
    raise InternalError(f"Path {folder}/bin/python does not exist. The Python environment should contain Python.")


def _unpack(archive: Path) -> Path:
    """The folder with the archive's content; another one when the archive has changed."""
    status = archive.stat()
    key = hashlib.sha256(f"{archive}\0{status.st_mtime_ns}\0{status.st_size}".encode()).hexdigest()[:32]
    home = Path(tempfile.gettempdir()) / f"charonia-environments-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid() or home.stat().st_mode & 0o077:
        raise InternalError(f"{home} belongs to somebody else or is open to others")
    folder = home / key
    with (home / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _extract(archive, folder)
    return folder


def _extract(archive: Path, folder: Path) -> None:
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        with tarfile.open(archive) as content:
            content.extractall(unfinished, filter="tar")
    except (tarfile.TarError, OSError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise InternalError(f"Failed to extract the Python environment {archive}: {error}") from error
    unfinished.rename(folder)
