"""The agent `checksum`: files must be what their MD5 sums in the configuration say."""

import hashlib
from collections.abc import Mapping
from os.path import normpath
from pathlib import Path

from charonia_runtime.core.agent import AgentAction
from charonia_runtime.core.errors import InternalError, InvalidArgumentError


class Agent:
    """See `core.agent.Agent`. Parameters are `MD5:<path in the model's folder>` with the sum in hexadecimal digits."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters

    def act(self, action: AgentAction, directory: Path) -> None:
        """Raises InvalidArgumentError, or InternalError for a file that cannot be read, with the agent's texts."""
        if action is not AgentAction.LOAD:
            return
        for key, expected in self._parameters.items():
            algorithm, colon, name = key.partition(":")
            if not colon:
                raise InvalidArgumentError(f"failed to parse key: {key}")
            if algorithm.upper() != "MD5":
                raise InvalidArgumentError(f"Unsupported checksum algorithm: {algorithm}")
            if Path(name).is_absolute() or normpath(name).split("/")[0] == "..":
                raise InvalidArgumentError(f"the path of '{key}' must be inside the model's folder")
            path = directory / name
            found = _md5(path)
            if found != expected:
                raise InvalidArgumentError(f"Mismatched MD5 hash for file {path}, expect: {expected}, got: {found}")


def _md5(path: Path) -> str:
    """In pieces: models are larger than memory."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise InternalError(f"failed to open text file for read {path}: {error.strerror}") from error
