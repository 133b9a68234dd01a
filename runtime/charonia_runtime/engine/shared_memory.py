"""
Regions of shared memory that clients register, and the pieces of them that requests name.

What a reference resolves to (a `memoryview`, or a `DeviceBuffer` on a GPU) is the lease of its mapping: the memory is
unmapped once the last view of a request in flight is gone. So requests resolve inputs and outputs when they are
accepted and keep the views until they are answered. What clients see of it is counted: a region that is unregistered
while requests use it stays listed, and its name taken, until the last of them is answered, as in the newest Triton. In
2.51 it cannot be unregistered then.

Clients own the objects and may write to them or truncate them at any time. The size is looked up again whenever a
piece is resolved, so a truncated object is an error of that request. A client that truncates between that moment and
the end of its request can still stop the process with SIGBUS, as it can in Triton. System calls instead of the mapping
would fail with an error, but cost more: `pwrite` of an output of 600 KB takes 44 us where the copy takes 16, and every
input would have to be read into memory of ours before its model runs. Where clients are not trusted, start with
`--allow-client-shm=false` or keep them off the server's /dev/shm.
"""

import logging
import mmap
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.errors import (
    AlreadyExistsError,
    InferenceError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from charonia_runtime.core.frontend import option
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.server import CudaRegion, SystemRegion
from charonia_runtime.core.tensor import SharedMemoryRef
from charonia_runtime.engine.held_regions import HeldRegions, Submit, regions_of

_RESERVED_PREFIX = "triton_python_backend_shm_region_"
_MAXIMUM = 2**64 - 1
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SharedMemoryOptions:
    """
    Whether clients may register regions.

    On by default, unlike the newest Triton: clients of every release before it register without being told to. Off by
    default where the user follows a newer Triton than 2.51 by name (`core.followed_triton`).
    """

    allow_client_shm: bool = option(
        True,
        "Allow clients to register regions of system and CUDA shared memory, and to unregister them. With "
        "--server-version-compatibility of a release after 2.51 it is false unless this flag is given.",
    )


class CudaMemory(Protocol):
    """The GPUs' side of CUDA regions: what it takes to serve them. A server without a GPU has none."""

    def map(self, raw_handle: bytes, device_id: int, byte_size: int) -> DeviceBuffer:
        """
        Open the allocation behind a cudaIpcMemHandle_t; it is closed when the buffer's owner is garbage.

        Raises InferenceError for a device or a handle that is none, and for an allocation of fewer bytes.
        """


class _SystemMapping:
    """One mapped region: its description, and the views that pieces are cut from."""

    __slots__ = ("_mapping", "_readonly", "_writable", "is_leaving", "region", "users")

    def __init__(self, region: SystemRegion, mapping: mmap.mmap) -> None:
        self.region = region
        self.users = 0
        self.is_leaving = False
        self._mapping = mapping
        self._writable = memoryview(mapping)
        self._readonly = self._writable.toreadonly()

    def piece(self, offset: int, byte_size: int, *, writable: bool) -> memoryview:
        """Bytes that the caller has checked to lie in the region. Raises InvalidArgumentError if the object shrank."""
        end = offset + byte_size
        if self._mapping.size() < self.region.offset + end:
            raise InvalidArgumentError(f"Invalid offset + byte size for shared memory region: '{self.region.name}'")
        return (self._writable if writable else self._readonly)[offset:end]


class _CudaMapping:
    """One opened CUDA region. Clients may write to it at any time, but its size cannot change."""

    __slots__ = ("_memory", "is_leaving", "region", "users")

    def __init__(self, region: CudaRegion, memory: DeviceBuffer) -> None:
        self.region = region
        self.users = 0
        self.is_leaving = False
        self._memory = memory

    def piece(self, offset: int, byte_size: int, *, writable: bool) -> DeviceBuffer:  # noqa: ARG002 - devices know no such thing
        """Bytes that the caller has checked to lie in the region."""
        return self._memory[offset : offset + byte_size]


_Region = TypeVar("_Region", SystemRegion, CudaRegion)


class SharedMemoryRegistry:
    """
    The engine's `core.server.SharedMemory`, and the resolver of `SharedMemoryRef`. Used on the event loop's thread.

    `directory` is where POSIX shared-memory objects lie. Texts and codes: Triton's shared-memory extension.
    """

    def __init__(
        self,
        options: SharedMemoryOptions = SharedMemoryOptions(),
        *,
        cuda: CudaMemory | None = None,
        directory: Path = Path("/dev/shm"),  # noqa: S108  POSIX names it
        newest_rules: bool = True,
    ) -> None:
        """With `newest_rules` a region may be unregistered while requests use it."""
        self._newest_rules = newest_rules
        self._allowed = options.allow_client_shm
        self._cuda = cuda
        self._directory = directory
        self._mappings: dict[str, _SystemMapping | _CudaMapping] = {}

    # --- what clients ask ---

    async def register_system(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """
        Map `byte_size` bytes at `offset` of the object called `key` as region `name`.

        `offset` must be a multiple of the page size; several regions may share an object.
        """
        self._check_allowed()
        self._check_new(name)
        object_name = _object_name(name, key)
        descriptor = _open_object(self._directory / object_name, key)
        try:
            mapping = _map(descriptor, name, offset, byte_size)
        finally:
            os.close(descriptor)
        self._mappings[name] = _SystemMapping(SystemRegion(name, key, offset, byte_size), mapping)

    async def register_cuda(self, name: str, raw_handle: bytes, device_id: int, byte_size: int) -> None:
        """
        Open a CUDA IPC handle as region `name`.

        Clients hear the same whatever is wrong with it, as from Triton; the log says what.
        """
        self._check_allowed()
        self._check_new(name)
        try:
            if self._cuda is None:
                raise UnavailableError("the server has no GPU")
            memory = self._cuda.map(raw_handle, device_id, byte_size)
        except InferenceError as error:
            logger.warning("failed to open the CUDA IPC handle of region '%s': %s", name, error)
            raise InvalidArgumentError("failed to register shared memory region: invalid args") from error
        self._mappings[name] = _CudaMapping(CudaRegion(name, device_id, byte_size), memory)

    async def system_regions(self, name: str = "") -> Sequence[SystemRegion]:
        return self._regions(SystemRegion, name)

    async def cuda_regions(self, name: str = "") -> Sequence[CudaRegion]:
        return self._regions(CudaRegion, name)

    async def unregister_system(self, name: str = "") -> None:
        self._forget(SystemRegion, name)

    async def unregister_cuda(self, name: str = "") -> None:
        self._forget(CudaRegion, name)

    # --- what the engine asks ---

    def resolve(self, ref: SharedMemoryRef, *, writable: bool) -> memoryview | DeviceBuffer:
        """
        The bytes that `ref` names, as they lie in the client's object: nothing is copied.

        The result keeps the region mapped. Raises NotFoundError or InvalidArgumentError with Triton's texts.
        """
        mapping = self._mappings.get(ref.region)
        if mapping is None:
            raise NotFoundError(f"Unable to find shared memory region: '{ref.region}'")
        # Clients' numbers are unsigned in Triton: a negative one is a huge one.
        offset = ref.offset & _MAXIMUM
        byte_size = ref.byte_size & _MAXIMUM
        # Offset and size 0 is refused too, as in Triton, where "the last byte" wraps around.
        if offset + byte_size > mapping.region.byte_size or offset + byte_size == 0:
            raise _out_of_bounds(mapping.region, offset, byte_size)
        return mapping.piece(offset, byte_size, writable=writable)

    def hold(self, request: InferenceRequest, submit: Submit) -> None:
        """Submit a request, and keep the regions that it names registered until it is answered (`HoldRegions`)."""
        mappings = self._mappings
        names = [name for name in regions_of(request) if name in mappings] if mappings else ()
        if not names:
            submit(request)
            return
        for name in names:
            mappings[name].users += 1
        held = HeldRegions(request, partial(self._release, names))
        try:
            submit(request)
        except BaseException:
            held.refused()
            raise

    # --- parts ---

    def _release(self, names: Sequence[str]) -> None:
        for name in names:
            mapping = self._mappings[name]
            mapping.users -= 1
            if mapping.is_leaving and not mapping.users:
                del self._mappings[name]

    def _check_allowed(self) -> None:
        if not self._allowed:
            raise UnsupportedError(
                "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
            )

    def _check_new(self, name: str) -> None:
        if name in self._mappings:
            raise AlreadyExistsError(f"shared memory region '{name}' already in manager")

    def _regions(self, kind: type[_Region], name: str) -> list[_Region]:
        if not name:
            described = [mapping.region for _, mapping in sorted(self._mappings.items())]
            return [region for region in described if isinstance(region, kind)]
        mapping = self._mappings.get(name)
        word, other = ("system", "CUDA") if kind is SystemRegion else ("CUDA", "system")
        if mapping is None:
            raise NotFoundError(f"Unable to find {word.lower()} shared memory region: '{name}'")
        if not isinstance(mapping.region, kind):
            raise NotFoundError(
                f"The region named '{name}' is registered as {other} shared memory, not {word} shared memory"
            )
        return [mapping.region]

    def _forget(self, kind: type[_Region], name: str) -> None:
        """Unregister one region, or all. Raises InternalError for those in use where old rules hold; others go."""
        self._check_allowed()
        in_use: list[str] = []
        for known in [name] if name else sorted(self._mappings):
            mapping = self._mappings.get(known)
            if mapping is None or not isinstance(mapping.region, kind):
                continue
            if not mapping.users:
                del self._mappings[known]
            elif self._newest_rules:
                mapping.is_leaving = True
            else:
                in_use.append(known)
        if in_use and name:
            raise InternalError(f"Cannot unregister shared memory region '{name}', it is currently in use.")
        if in_use:
            word = "system" if kind is SystemRegion else "cuda"
            listed = "".join(f"{known} ," for known in in_use)
            raise InternalError(f"Failed to unregister the following {word} shared memory regions: {listed}")


def _object_name(name: str, key: str) -> str:
    """The file name behind a key: leading slashes do not count. Raises when it is empty, reserved or a path."""
    bare = key.lstrip("/")
    if not bare:
        raise InvalidArgumentError(f"cannot register shared memory region '{name}' - invalid shm key '{key}'")
    if bare.startswith(_RESERVED_PREFIX):
        raise InvalidArgumentError(
            f"cannot register shared memory region '{name}' with key '{key}' as the key contains the reserved prefix "
            f"'{_RESERVED_PREFIX}'"
        )
    if "/" in bare:
        raise InternalError(f"Unable to open shared memory region: '{key}'")
    return bare


def _open_object(path: Path, key: str) -> int:
    """
    A descriptor of a shared-memory object. Raises InternalError for whatever is not a regular file that can be opened.

    Links are not followed, and a pipe or device of that name neither blocks nor is read.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise InternalError(f"Unable to open shared memory region: '{key}'") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InternalError(f"Unable to open shared memory region: '{key}'")
    return descriptor


def _map(descriptor: int, name: str, offset: int, byte_size: int) -> mmap.mmap:
    """Map a part of an object. Raises InvalidArgumentError when it is not inside, not aligned, or cannot be mapped."""
    if offset < 0 or byte_size < 0 or offset + byte_size > os.fstat(descriptor).st_size:
        raise InvalidArgumentError(f"failed to register shared memory region '{name}': invalid args")
    failure = f"failed to register shared memory region '{name}': unable to process address space"
    if byte_size == 0 or offset % mmap.ALLOCATIONGRANULARITY:
        raise InvalidArgumentError(f"{failure}Invalid argument")
    try:
        return mmap.mmap(descriptor, byte_size, offset=offset)
    except (OSError, ValueError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "Invalid argument"
        raise InvalidArgumentError(failure + reason) from error


def _out_of_bounds(region: SystemRegion | CudaRegion, offset: int, byte_size: int) -> InferenceError:
    """Which of Triton's three complaints fits a piece that does not lie in its region."""
    if offset >= region.byte_size:
        return InvalidArgumentError(f"Invalid offset for shared memory region: '{region.name}'")
    if offset + byte_size > _MAXIMUM:
        return InvalidArgumentError(
            f"Integer overflow detected: byte_size ({byte_size}) + offset ({offset}) exceeds maximum value "
            f"({_MAXIMUM}) for region '{region.name}'"
        )
    return InvalidArgumentError(f"Invalid offset + byte size for shared memory region: '{region.name}'")
