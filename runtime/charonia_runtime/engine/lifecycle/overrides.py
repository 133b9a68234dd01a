"""
Models that come with a load request instead of from a repository: parameters `config` and `file:<path>`.

Files are written to a private temporary directory that lives as long as the model is loaded, at most as long as the
process. Everything here blocks on the file system; the engine calls it in an executor.
"""

import logging
import posixpath
from collections.abc import Mapping

from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.engine.lifecycle.repository import CONFIG_FILENAME
from charonia_runtime.owned_folders import OwnedFolder

logger = logging.getLogger(__name__)

_PREFIX = "file:"


class OverrideDirectory:
    """
    A model's directory made from a load request.

    Removed by `remove`, or as `owned_folders` says.
    """

    def __init__(self, name: str, files: Mapping[str, bytes]) -> None:
        """
        `files` maps paths, with or without `file:` in front, to contents.

        Raises InvalidArgumentError for paths that cannot be, InternalError when they cannot be written.
        """
        targets = {safe_path(parameter): content for parameter, content in files.items()}
        self._holder = OwnedFolder("charonia-model-")
        self.path = self._holder.path / name
        try:
            self.path.mkdir()
            for target, content in targets.items():
                self._write(target, content)
        except (OSError, ValueError) as error:
            self.remove()
            raise InternalError(f"failed to write the files of model '{name}': {error}") from error
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Delete the directory. May be called again."""
        self._holder.remove()

    def _write(self, target: str, content: bytes) -> None:
        path = self.path / target
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise InvalidArgumentError(
                f"Invalid file parameter '{_PREFIX}{target}', directory has been created as a file"
            ) from error


def safe_path(parameter: str) -> str:
    """
    The path of a file parameter relative to the model's directory, normalised.

    Raises InvalidArgumentError when it is empty, is the configuration, or leads outside the directory.
    """
    given = parameter.removeprefix(_PREFIX)
    if "\0" in given or not given:
        raise InvalidArgumentError(
            f"Invalid file parameter '{_PREFIX}{given!r}', expected a path such as '{_PREFIX}1/model.py'"
        )
    normalized = posixpath.normpath(posixpath.join("/model", given.lstrip("/")))
    if not normalized.startswith("/model/"):
        raise InvalidArgumentError(
            f"Invalid file parameter '{_PREFIX}{given}' with normalized path '{normalized}' must stay within model "
            "directory."
        )
    relative = normalized.removeprefix("/model/")
    if relative == CONFIG_FILENAME:
        raise InvalidArgumentError(
            f"Invalid file parameter '{_PREFIX}{given}', the configuration is given by parameter 'config'"
        )
    return relative
