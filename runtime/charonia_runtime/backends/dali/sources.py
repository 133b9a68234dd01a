"""A model's files: a serialized pipeline, or Python that makes one."""

import subprocess
import sys
from pathlib import Path

from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.owned_folders import OwnedFolder

DEFAULT_NAME = "model.dali"
_FALLBACK_NAME = "dali.py"
_SERIALIZER = Path(__file__).with_name("serializer.py")
_SECONDS = 600


def read_pipeline(files: ModelFiles, filename: str) -> bytes:
    """
    The serialized pipeline in file `filename` of the version's folder, else in `dali.py` there.

    Files in Python are run by a process of their own. Raises UnavailableError where neither can be had.
    """
    named, fallback = (files.version_directory / name for name in (filename or DEFAULT_NAME, _FALLBACK_NAME))
    cause = ""
    for path in (named, fallback):
        if not path.is_file():
            continue
        if path.suffix != ".py":
            return path.read_bytes()
        serialized, cause = _serialized(path)
        if not cause:
            return serialized
    raise UnavailableError(
        f"Failed to load model file. The program looked in the following locations: {named}, {fallback}. Please make "
        "sure that the model exists in any of the locations and is properly serialized or can be properly serialized."
        + (f" {cause}" if cause else "")
    )


def _serialized(source: Path) -> tuple[bytes, str]:
    """What the file makes, and the last line of why it failed."""
    folder = OwnedFolder("charonia-dali-")
    try:
        target = folder.path / DEFAULT_NAME
        command = [sys.executable, str(_SERIALIZER), str(source), str(target)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)  # noqa: S603
        except subprocess.TimeoutExpired:
            return b"", f"'{source}' took more than {_SECONDS} s."
        if done.returncode == 0 and target.is_file():
            return target.read_bytes(), ""
        return b"", (done.stderr.strip().splitlines() or [f"'{source}' ended with {done.returncode}."])[-1]
    finally:
        folder.remove()
