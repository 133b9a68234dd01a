"""Paths that a configuration gives, which must stay inside the model's folder."""

from os.path import normpath
from pathlib import Path

from charonia_runtime.core.errors import InternalError, InvalidArgumentError


def read_model_file(folder: Path, path: str, field: str) -> bytes:
    """
    The content of the file that the configuration's `field` names by `path`, relative to `folder`.

    A link may lead out of the folder, since whoever made it owns the repository; `..` and absolute paths, which
    clients may send in a configuration, do not. Raises InvalidArgumentError for these, InternalError with Triton's
    text for a file that cannot be read.
    """
    if not is_inside(path):
        raise InvalidArgumentError(f"{field} '{path}' must be a path inside the model's folder")
    file = folder / path
    try:
        return file.read_bytes()
    except OSError as error:
        raise InternalError(f"failed to open text file for read {file}: {error.strerror}") from error


def is_inside(path: str) -> bool:
    """Whether a path, relative to a folder, stays inside it."""
    return not Path(path).is_absolute() and normpath(path).split("/")[0] != ".."
