import gc
import mmap
import os
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import (
    AlreadyExistsError,
    InferenceError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from charonia_runtime.core.request import InferenceResponse
from charonia_runtime.core.server import CudaRegion, SystemRegion
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.cuda.regions import InterprocessMemory
from charonia_runtime.engine.shared_memory import SharedMemoryOptions, SharedMemoryRegistry
from tests.support.cuda_runtime import PEER_HANDLE, FakeGpus
from tests.support.requests import a_request

PAGE = mmap.PAGESIZE
HANDLE = PEER_HANDLE
OVERFLOW = (
    "Integer overflow detected: byte_size ({byte_size}) + offset ({offset}) exceeds maximum value "
    "(18446744073709551615) for region 'region'"
)


@pytest.fixture
def objects(tmp_path):
    """Where the objects lie: `area` of two pages (ones, then twos), and things that are no objects."""
    (tmp_path / "area").write_bytes(b"\1" * PAGE + b"\2" * PAGE)
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "area")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.fixture
def registry(objects):
    return SharedMemoryRegistry(directory=objects)


def mapped(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# --- registration ---


async def test_a_region_is_listed_and_forgotten(registry):
    await registry.register_system("b", "/area", 0, 64)
    await registry.register_system("a", "area", PAGE, PAGE)

    assert await registry.system_regions() == [SystemRegion("a", "area", PAGE, PAGE), SystemRegion("b", "/area", 0, 64)]
    assert await registry.system_regions("b") == [SystemRegion("b", "/area", 0, 64)]
    await registry.unregister_system("b")
    assert [region.name for region in await registry.system_regions()] == ["a"]
    await registry.unregister_system()
    assert await registry.system_regions() == []


async def test_the_real_directory_is_the_default():
    key = f"charonia-test-{uuid.uuid4().hex}"
    path = Path("/dev/shm") / key
    path.write_bytes(b"abcd")
    try:
        registry = SharedMemoryRegistry()
        await registry.register_system("region", f"/{key}", 0, 4)
        assert bytes(registry.resolve(SharedMemoryRef("region", 4), writable=False)) == b"abcd"
    finally:
        path.unlink()


async def test_a_taken_name_is_refused_and_keeps_its_region(registry):
    await registry.register_system("region", "/area", 0, 64)

    with pytest.raises(AlreadyExistsError, match=r"^shared memory region 'region' already in manager$"):
        await registry.register_system("region", "/nothing", 0, 8)
    assert await registry.system_regions() == [SystemRegion("region", "/area", 0, 64)]


@pytest.mark.parametrize(
    "key",
    [
        "/nothing",
        "../area",
        "/directory",
        "/directory/../area",
        "/..",
        ".",
        "link",
        "pipe",
        "a\0rea",
        "x" * 300,
        "\ud800",
    ],
)
async def test_keys_that_open_nothing(registry, key):
    before = open_descriptors()

    with pytest.raises(InternalError) as caught:
        await registry.register_system("region", key, 0, 8)

    assert caught.value.message == f"Unable to open shared memory region: '{key}'"
    assert open_descriptors() == before


@pytest.mark.parametrize("key", ["", "/", "///"])
async def test_empty_keys(registry, key):
    with pytest.raises(InvalidArgumentError) as caught:
        await registry.register_system("region", key, 0, 8)

    assert caught.value.message == f"cannot register shared memory region 'region' - invalid shm key '{key}'"


@pytest.mark.parametrize("slashes", ["", "/", "//"])
async def test_reserved_keys(registry, slashes):
    key = f"{slashes}triton_python_backend_shm_region_1"

    with pytest.raises(InvalidArgumentError) as caught:
        await registry.register_system("region", key, 0, 8)

    assert caught.value.message == (
        f"cannot register shared memory region 'region' with key '{key}' as the key contains the reserved prefix "
        "'triton_python_backend_shm_region_'"
    )


@pytest.mark.parametrize(
    ("offset", "byte_size", "reason"),
    [
        (0, 2 * PAGE + 1, "invalid args"),
        (PAGE, PAGE + 1, "invalid args"),
        (0, 2**64 - 1, "invalid args"),
        (2**64 - PAGE, 64, "invalid args"),
        (-PAGE, 64, "invalid args"),
        (8, 64, "unable to process address spaceInvalid argument"),
        (0, 0, "unable to process address spaceInvalid argument"),
        (2 * PAGE, 0, "unable to process address spaceInvalid argument"),
    ],
)
async def test_ranges_that_cannot_be_mapped(registry, offset, byte_size, reason):
    before = open_descriptors()

    with pytest.raises(InvalidArgumentError) as caught:
        await registry.register_system("region", "/area", offset, byte_size)

    assert caught.value.message == f"failed to register shared memory region 'region': {reason}"
    assert await registry.system_regions() == []
    assert open_descriptors() == before


async def test_unknown_regions(registry):
    await registry.unregister_system("nothing")
    await registry.unregister_cuda("nothing")
    with pytest.raises(NotFoundError, match=r"^Unable to find system shared memory region: 'nothing'$"):
        await registry.system_regions("nothing")
    with pytest.raises(NotFoundError, match=r"^Unable to find cuda shared memory region: 'nothing'$"):
        await registry.cuda_regions("nothing")


async def test_clients_can_be_kept_out(objects):
    registry = SharedMemoryRegistry(SharedMemoryOptions(allow_client_shm=False), directory=objects)
    calls = [
        lambda: registry.register_system("region", "/area", 0, 8),
        lambda: registry.register_cuda("region", HANDLE, 0, 8),
        registry.unregister_system,
        registry.unregister_cuda,
    ]

    for call in calls:
        with pytest.raises(UnsupportedError) as caught:
            await call()
        assert caught.value.message == (
            "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
        )
    assert await registry.system_regions() == []
    assert await registry.cuda_regions() == []


# --- CUDA ---


@pytest.fixture
def gpus():
    """GPU 1 holds an allocation of another process: 0 to 15 as bytes."""
    gpus = FakeGpus(2)
    gpus.peer(bytes(range(16)), device=1)
    return gpus


@pytest.fixture
def with_gpus(objects, gpus):
    return SharedMemoryRegistry(directory=objects, cuda=InterprocessMemory(gpus.cuda()))


async def test_cuda_regions_need_a_gpu(registry, caplog):
    with pytest.raises(InvalidArgumentError, match=r"^failed to register shared memory region: invalid args$"):
        await registry.register_cuda("region", HANDLE, 0, 8)

    assert "IPC handle of region 'region': the server has no GPU" in caplog.text


@pytest.mark.parametrize(
    ("region", "reason"),
    [
        ((b"\1" * 64, 1, 8), "cudaErrorInvalidResourceHandle"),
        ((b"abc", 1, 8), "64 bytes, got 3"),
        ((HANDLE, 0, 8), "cudaErrorInvalidResourceHandle"),
        ((HANDLE, -1, 8), "cudaErrorInvalidDevice"),
        ((HANDLE, 2, 8), "cudaErrorInvalidDevice"),
        ((HANDLE, 1, 17), "the allocation has 16 bytes, the region 17"),
        ((HANDLE, 1, 0), "the allocation has 16 bytes, the region 0"),
    ],
)
async def test_cuda_handles_that_do_not_open(with_gpus, gpus, region, reason, caplog):
    with pytest.raises(InvalidArgumentError, match=r"^failed to register shared memory region: invalid args$"):
        await with_gpus.register_cuda("region", *region)

    assert reason in caplog.text
    assert await with_gpus.cuda_regions() == []
    assert gpus.opened == []


async def test_pieces_of_a_cuda_region_lie_on_the_device(with_gpus):
    await with_gpus.register_cuda("region", HANDLE, 1, 12)

    piece = with_gpus.resolve(SharedMemoryRef("region", 4, offset=8), writable=True)

    assert piece.device_id == 1
    assert piece.to_host() == bytes([8, 9, 10, 11])
    piece.fill(memoryview(b"ab"))
    whole = with_gpus.resolve(SharedMemoryRef("region", 12), writable=False)
    assert whole.to_host() == bytes([0, 1, 2, 3, 4, 5, 6, 7]) + b"ab" + bytes([10, 11])
    with pytest.raises(InvalidArgumentError, match=r"^Invalid offset \+ byte size for shared memory region: 'region'$"):
        with_gpus.resolve(SharedMemoryRef("region", 8, offset=8), writable=False)


async def test_cuda_memory_stays_open_until_the_last_request_ends(with_gpus, gpus):
    await with_gpus.register_cuda("region", HANDLE, 1, 16)
    piece = with_gpus.resolve(SharedMemoryRef("region", 4), writable=False)

    await with_gpus.unregister_cuda("region")
    assert len(gpus.opened) == 1
    assert piece.to_host() == bytes(range(4))
    del piece
    assert gpus.opened == []


async def test_the_same_handle_twice(with_gpus, gpus):
    await with_gpus.register_cuda("one", HANDLE, 1, 16)
    await with_gpus.register_cuda("two", HANDLE, 1, 8)

    await with_gpus.unregister_cuda("one")

    assert len(gpus.opened) == 1
    assert with_gpus.resolve(SharedMemoryRef("two", 2), writable=False).to_host() == b"\0\1"


async def test_the_two_kinds_share_names_and_nothing_else(with_gpus):
    registry = with_gpus
    await registry.register_cuda("cuda", HANDLE, 1, 8)
    await registry.register_system("system", "/area", 0, 8)

    with pytest.raises(AlreadyExistsError):
        await registry.register_system("cuda", "/area", 0, 8)
    with pytest.raises(NotFoundError) as caught:
        await registry.system_regions("cuda")
    assert (
        caught.value.message == "The region named 'cuda' is registered as CUDA shared memory, not system shared memory"
    )
    with pytest.raises(NotFoundError) as caught:
        await registry.cuda_regions("system")
    assert caught.value.message == (
        "The region named 'system' is registered as system shared memory, not CUDA shared memory"
    )
    await registry.unregister_system("cuda")
    await registry.unregister_system()
    assert await registry.cuda_regions() == [CudaRegion("cuda", 1, 8)]
    await registry.unregister_cuda()
    assert await registry.cuda_regions() == []


# --- use ---


async def test_pieces_are_the_objects_own_bytes(registry, objects):
    await registry.register_system("region", "/area", PAGE, PAGE)

    piece = registry.resolve(SharedMemoryRef("region", 4, offset=8), writable=True)
    piece[:] = b"abcd"

    assert (objects / "area").read_bytes()[PAGE + 8 : PAGE + 13] == b"abcd\2"
    assert registry.resolve(SharedMemoryRef("region", PAGE), writable=False)[8:13] == b"abcd\2"


async def test_inputs_are_read_only(registry):
    await registry.register_system("region", "/area", 0, 8)

    with pytest.raises(TypeError):
        registry.resolve(SharedMemoryRef("region", 8), writable=False)[0] = 1


@pytest.mark.parametrize(
    ("offset", "byte_size", "message"),
    [
        (64, 1, "Invalid offset for shared memory region: 'region'"),
        (5000, 16, "Invalid offset for shared memory region: 'region'"),
        (-1, 16, "Invalid offset for shared memory region: 'region'"),
        (60, 5, "Invalid offset + byte size for shared memory region: 'region'"),
        (0, 65, "Invalid offset + byte size for shared memory region: 'region'"),
        (0, 0, "Invalid offset + byte size for shared memory region: 'region'"),
        (
            32,
            2**64 - 32,
            OVERFLOW.format(byte_size=2**64 - 32, offset=32),
        ),
        (
            1,
            -1,
            OVERFLOW.format(byte_size=2**64 - 1, offset=1),
        ),
    ],
)
async def test_pieces_outside_their_region(registry, offset, byte_size, message):
    await registry.register_system("region", "/area", 0, 64)

    with pytest.raises(InvalidArgumentError) as caught:
        registry.resolve(SharedMemoryRef("region", byte_size, offset), writable=False)

    assert caught.value.message == message


def test_pieces_of_nothing(registry):
    with pytest.raises(NotFoundError, match=r"^Unable to find shared memory region: 'region'$"):
        registry.resolve(SharedMemoryRef("region", 1), writable=False)


async def test_an_empty_piece_behind_the_start_is_empty(registry):
    await registry.register_system("region", "/area", 0, 64)

    assert registry.resolve(SharedMemoryRef("region", 0, offset=16), writable=False).nbytes == 0


@given(offset=st.integers(-(2**63), 2**64), byte_size=st.integers(-(2**63), 2**64))
async def test_a_piece_is_exact_or_refused(tmp_path_factory, offset, byte_size):
    path = tmp_path_factory.mktemp("objects") / "area"
    path.write_bytes(bytes(range(64)))
    registry = SharedMemoryRegistry(directory=path.parent)
    await registry.register_system("region", "area", 0, 64)
    try:
        piece = registry.resolve(SharedMemoryRef("region", byte_size, offset), writable=False)
    except InferenceError as error:
        assert offset < 0 or byte_size <= 0 or offset + byte_size > 64, error
    else:
        assert bytes(piece) == bytes(range(offset % 2**64, (offset + byte_size) % 2**64))


async def test_a_truncated_object_is_an_error_not_a_crash(registry, objects):
    await registry.register_system("region", "/area", PAGE, PAGE)
    os.truncate(objects / "area", PAGE + 16)

    with pytest.raises(InvalidArgumentError, match=r"Invalid offset \+ byte size for shared memory region: 'region'"):
        registry.resolve(SharedMemoryRef("region", 17), writable=False)
    assert bytes(registry.resolve(SharedMemoryRef("region", 16), writable=False)) == b"\2" * 16


async def test_memory_stays_mapped_until_the_last_request_ends(registry, objects):
    await registry.register_system("region", "/area", 0, PAGE)
    before = open_descriptors()
    first = registry.resolve(SharedMemoryRef("region", 4), writable=False)
    second = registry.resolve(SharedMemoryRef("region", 4), writable=True)

    await registry.unregister_system("region")
    del first
    second[:] = b"late"
    assert mapped(objects / "area") == 1
    del second
    gc.collect()

    assert mapped(objects / "area") == 0
    assert open_descriptors() == before - 1
    assert (objects / "area").read_bytes()[:4] == b"late"


def using(name):
    return a_request("m", {"A": Tensor("A", DataType.UINT8, (1,), SharedMemoryRef(name, 1))})


async def test_a_region_in_use_stays_listed_until_its_last_request_ends(registry):
    await registry.register_system("region", "/area", 0, PAGE)
    requests, submitted = [using("region"), using("region"), using("nothing")], []
    for request in requests:
        registry.hold(request, submitted.append)
    assert submitted == requests

    await registry.unregister_system("region")
    for request in requests[:2]:
        assert [region.name for region in await registry.system_regions()] == ["region"]
        with pytest.raises(AlreadyExistsError):
            await registry.register_system("region", "/area", 0, PAGE)
        request.sink.send(InferenceResponse("m", 1, final=False))
        assert len(await registry.system_regions()) == 1
        request.sink.send(InferenceResponse("m", 1))
    assert await registry.system_regions() == []
    await registry.register_system("region", "/area", 0, PAGE)


async def test_a_request_that_is_refused_uses_no_region(registry):
    await registry.register_system("region", "/area", 0, PAGE)
    request = using("region")
    sink = request.sink

    def refuse(_):
        raise InvalidArgumentError("no")

    with pytest.raises(InvalidArgumentError):
        registry.hold(request, refuse)
    assert request.sink is sink
    await registry.unregister_system("region")
    assert await registry.system_regions() == []


async def test_old_releases_unregister_no_region_in_use(objects):
    registry = SharedMemoryRegistry(directory=objects, newest_rules=False)
    await registry.register_system("region", "/area", 0, PAGE)
    request = using("region")
    registry.hold(request, lambda _: None)

    with pytest.raises(
        InternalError, match=r"Cannot unregister shared memory region 'region', it is currently in use\."
    ):
        await registry.unregister_system("region")
    await registry.register_system("other", "/area", 0, PAGE)
    with pytest.raises(InternalError, match=r"^Failed to unregister the following system .* regions: region ,$"):
        await registry.unregister_system()
    request.sink.send(InferenceResponse("m", 1))
    assert len(await registry.system_regions()) == 1
    await registry.unregister_system("region")
    assert await registry.system_regions() == []


async def test_a_name_can_be_reused_while_its_old_memory_is_in_use(registry):
    await registry.register_system("region", "/area", 0, PAGE)
    old = registry.resolve(SharedMemoryRef("region", 2), writable=False)
    await registry.unregister_system("region")
    await registry.register_system("region", "/area", PAGE, PAGE)

    assert bytes(old) == b"\1\1"
    assert bytes(registry.resolve(SharedMemoryRef("region", 2), writable=False)) == b"\2\2"
