"""The files that hold access tokens: the flag that names them, how they are read, and read again as they change."""

import asyncio
import logging
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from charonia_runtime.core.access import AccessTokens, parse_tokens
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.frontend import option

logger = logging.getLogger(__name__)

_FLAG: Final = "access-token-file"
_LOOK_SECONDS: Final = 1.0
"""How often the files are looked at. Kubernetes takes up to a minute to bring a changed Secret to a pod anyway."""
_LARGEST_BYTES: Final = 1 << 20

_Mark = tuple[int, ...]
"""What is different when a file is: device, inode, size, times of its content and of its inode (ns)."""


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Who is let in, by HTTP and by gRPC alike."""

    access_token_file: tuple[str, ...] = option(
        (),
        "File of access tokens, one a line; # begins a comment. HTTP and gRPC then answer only clients that send one "
        "as 'Authorization: <token>' or 'Authorization: Bearer <token>' (gRPC: metadata 'authorization'); health and "
        "metrics stay open. The file is read again when it changes. May be given several times.",
        metavar="<file>",
    )
    _tokens: AccessTokens = field(default_factory=AccessTokens, compare=False)

    @property
    def tokens(self) -> AccessTokens | None:
        """The tokens that frontends ask for, empty until the files are read; None if everybody is let in."""
        return self._tokens if self.access_token_file else None


class AccessFiles:
    """Keeps access tokens as the files have them. A file that breaks keeps the tokens that it had."""

    def __init__(self, options: AccessOptions) -> None:
        self._valid = options.tokens or AccessTokens()
        self._files = [_TokenFile(Path(name)) for name in options.access_token_file]

    def open(self) -> None:
        """Read every file. Raises InvalidArgumentError if one cannot be used."""
        for file in self._files:
            file.mark = file.look()
            file.tokens = file.read()
        if self._files:
            self._replace()
            logger.info("clients need an access token; %d are valid", self._count)

    async def watch(self, wait: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Follow the files until cancelled. `wait` is the clock."""
        while self._files:
            await wait(_LOOK_SECONDS)
            if await asyncio.to_thread(self._refresh):
                self._replace()
                logger.info("the access tokens changed; %d are valid", self._count)

    def _refresh(self) -> bool:
        """Look at every file. Whether any has other tokens."""
        differ = [file.refresh() for file in self._files]
        return any(differ)

    def _replace(self) -> None:
        self._valid.replace(token for file in self._files for token in file.tokens)

    @property
    def _count(self) -> int:
        return len({token for file in self._files for token in file.tokens})


@dataclass(slots=True)
class _TokenFile:
    """One file, and what is known of it."""

    path: Path
    tokens: tuple[str, ...] = ()
    mark: _Mark = ()
    fault: str = ""
    """What is wrong with it, as it was logged."""

    def refresh(self) -> bool:
        """Read the file if it changed. Whether its tokens did; they stay while it cannot be used."""
        try:
            mark = self.look()
            if mark == self.mark:
                return False
            tokens = self.read()
        except InvalidArgumentError as error:
            # Looked at again next time: who may read a file can change without a trace in it.
            self.mark = ()
            if error.message != self.fault:
                logger.error("%s; its last tokens stay valid", error.message)  # noqa: TRY400 - no defect of ours
            self.fault = error.message
            return False
        if self.fault:
            logger.info("--%s '%s' can be used again", _FLAG, self.path)
        self.mark, self.fault = mark, ""
        differ, self.tokens = set(tokens) != set(self.tokens), tokens
        return differ

    def look(self) -> _Mark:
        """What marks the file as it is. Raises InvalidArgumentError."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        if not stat.S_ISREG(found.st_mode):
            raise self._unusable("it is no regular file")
        if found.st_size > _LARGEST_BYTES:
            raise self._unusable(f"it has {found.st_size} bytes, at most {_LARGEST_BYTES} are read")
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def read(self) -> tuple[str, ...]:
        """The tokens in the file. Raises InvalidArgumentError."""
        try:
            return parse_tokens(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        except UnicodeDecodeError as error:
            raise self._unusable("it is no text") from error
        except InvalidArgumentError as error:
            raise self._unusable(error.message) from error

    def _unusable(self, reason: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"cannot use --{_FLAG} '{self.path}': {reason}")
