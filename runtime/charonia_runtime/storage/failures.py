"""
Why a copy of a repository failed. Each class carries the cause that status files and termination messages name.

    StorageError
    ├── LocationError      Invalid          the URI or an option cannot be used
    ├── DeniedError        Denied           the store refuses the credentials
    ├── CredentialsError   SecretMissing    there are none where they should be
    ├── MissingError       NotFound         no such bucket or folder
    ├── EmptyError         Empty            nothing at that place
    ├── UnreachableError   Unreachable      no answer, too slow, or "try again"; worth another try
    ├── ChangedError       Drift            an object changed while it was copied
    ├── ChurningError      Churning         the store never stops changing
    ├── IntegrityError     IntegrityFailed  bytes differ from what the store promises
    ├── NoChecksumError    IntegrityFailed  the store promises nothing, and a promise is asked for
    ├── LayoutError        LayoutInvalid    objects that cannot be files
    ├── RevisionError      RevisionMismatch the content is not the one that was pinned
    ├── SpaceError         DiskTooSmall     it would not fit
    ├── DiskError          DiskFailed       the disk refuses a write
    └── StoppedError       Stopped          told to stop
"""

import errno
from collections.abc import Callable
from typing import ClassVar

from charonia_runtime.core.errors import ErrorCode, InferenceError


class StorageError(InferenceError):
    """A repository could not be copied. Nothing of the failed attempt is visible to a server."""

    code = ErrorCode.INTERNAL
    cause: ClassVar[str] = "Failed"


class LocationError(StorageError):
    code = ErrorCode.INVALID_ARGUMENT
    cause = "Invalid"


class DeniedError(StorageError):
    """`expired` tells of credentials that were right once: new ones may be on their way."""

    code = ErrorCode.UNAVAILABLE
    cause = "Denied"

    def __init__(self, message: str, *, expired: bool = False) -> None:
        super().__init__(message)
        self.expired = expired


class CredentialsError(StorageError):
    code = ErrorCode.INVALID_ARGUMENT
    cause = "SecretMissing"


class MissingError(StorageError):
    code = ErrorCode.NOT_FOUND
    cause = "NotFound"


class EmptyError(StorageError):
    code = ErrorCode.NOT_FOUND
    cause = "Empty"


class UnreachableError(StorageError):
    """`retry_after_seconds` is what the store asked for, if it did."""

    code = ErrorCode.UNAVAILABLE
    cause = "Unreachable"

    def __init__(self, message: str, *, retry_after_seconds: float = 0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ChangedError(StorageError):
    code = ErrorCode.UNAVAILABLE
    cause = "Drift"


class ChurningError(StorageError):
    code = ErrorCode.UNAVAILABLE
    cause = "Churning"


class IntegrityError(StorageError):
    cause = "IntegrityFailed"


class NoChecksumError(StorageError):
    cause = "IntegrityFailed"


class LayoutError(StorageError):
    code = ErrorCode.INVALID_ARGUMENT
    cause = "LayoutInvalid"


class RevisionError(StorageError):
    cause = "RevisionMismatch"


class SpaceError(StorageError):
    cause = "DiskTooSmall"


class DiskError(StorageError):
    cause = "DiskFailed"


class StoppedError(StorageError):
    code = ErrorCode.CANCELLED
    cause = "Stopped"


def disk_failure(error: OSError) -> StorageError:
    """What a failed write to the local disk means."""
    where = f" at {error.filename}" if error.filename else ""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return SpaceError(f"the disk is full{where}: {error.strerror}")
    if error.errno == errno.EROFS:
        return DiskError(f"the volume is read-only{where}")
    return DiskError(f"cannot write{where}: {error.strerror or error}")


def nothing_at(bucket: str, prefix: str, has: Callable[[str], bool], noun: str = "bucket") -> EmptyError:
    """
    Why a bucket shows nothing below a prefix, with the nearest place that `has` something.

    `noun` is the service's word for a bucket.
    """
    parts = prefix.split("/")[:-1]
    above = ["".join(f"{part}/" for part in parts[:count]) for count in range(len(parts) - 1, -1, -1)]
    nearest = next((each for each in above if has(each)), None)
    if nearest is None:
        return EmptyError(f"the {noun} '{bucket}' is empty")
    where = f"'{nearest}'" if nearest else f"the {noun}'s root"
    return EmptyError(
        f"there is no object under '{prefix}' in the {noun} '{bucket}'; the nearest place with any is {where}"
    )
