"""The face of the CUDA runtime on a stand-in, and the stand-in against the real bindings where they are installed."""

import inspect
import os
import re
import sys
from collections.abc import Callable

import pytest

from charonia_runtime.core.errors import InternalError, UnavailableError
from charonia_runtime.cuda.runtime import Cuda, Stream
from charonia_runtime.devices import visible_gpus
from charonia_runtime.installation import install_command
from tests.support.cuda_runtime import PEER_HANDLE, FakeGpus, cudaError_t


@pytest.fixture
def gpus() -> FakeGpus:
    return FakeGpus(2)


@pytest.fixture
def cuda(gpus: FakeGpus) -> Cuda:
    return gpus.cuda()


FUNCTIONS = sorted(
    name for name in vars(FakeGpus) if re.match("cuda[A-Z]", name) and inspect.isfunction(vars(FakeGpus)[name])
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_stand_in_has_the_bindings_names_and_arguments(name: str) -> None:
    real = pytest.importorskip("cuda.bindings.runtime", reason="the package cuda-bindings is not installed")
    signature = (getattr(real, name).__doc__ or "").splitlines()[0]
    arguments = re.search(r"\((.*)\)", signature)
    assert arguments is not None, signature
    names = [part.split(":")[0].split()[-1] for part in arguments.group(1).split(",") if part.strip()]
    own = [parameter for parameter in inspect.signature(vars(FakeGpus)[name]).parameters if parameter != "self"]
    assert own == names


def test_the_stand_in_has_the_bindings_constants() -> None:
    real = pytest.importorskip("cuda.bindings.runtime", reason="the package cuda-bindings is not installed")
    for name, value in vars(FakeGpus).items():
        if name.startswith("cuda") and isinstance(value, int):
            assert int(getattr(real, name)) == value
    for kind in ("cudaError_t", "cudaMemcpyKind", "cudaStreamCaptureMode"):
        for member in getattr(FakeGpus, kind):
            assert int(getattr(getattr(real, kind), member.name)) == member.value
    assert isinstance(real.cudaIpcMemHandle_t().getPtr(), int)


CALLS: dict[str, Callable[[Cuda], object]] = {
    "cudaSetDevice": lambda cuda: cuda.use(0),
    "cudaGetDevice": lambda cuda: cuda.on(0).__enter__(),
    "cudaMalloc": lambda cuda: cuda.allocate(1),
    "cudaFree": lambda cuda: cuda.free(256),
    "cudaHostAlloc": lambda cuda: cuda.allocate_pinned(1),
    "cudaFreeHost": lambda cuda: cuda.free_pinned(256),
    "cudaMemcpyAsync": lambda cuda: cuda.copy(256, 512, 8, Stream(1)),
    "cudaDeviceGetStreamPriorityRange": lambda cuda: cuda.create_stream(),
    "cudaStreamDestroy": lambda cuda: cuda.destroy_stream(Stream(1)),
    "cudaStreamSynchronize": lambda cuda: cuda.wait(Stream(1)),
    "cudaEventCreateWithFlags": lambda cuda: cuda.create_event(),
    "cudaEventRecord": lambda cuda: cuda.wait_asleep(Stream(1), 1),
    "cudaEventDestroy": lambda cuda: cuda.destroy_event(1),
    "cudaStreamBeginCapture": lambda cuda: cuda.begin_capture(Stream(1)),
    "cudaStreamEndCapture": lambda cuda: cuda.end_capture(Stream(1)),
    "cudaGraphLaunch": lambda cuda: cuda.launch(1, Stream(1)),
    "cudaGraphExecDestroy": lambda cuda: cuda.destroy_graph(1),
    "cudaIpcOpenMemHandle": lambda cuda: cuda.open_handle(bytes(64)),
    "cudaIpcCloseMemHandle": lambda cuda: cuda.close_handle(256),
}


@pytest.mark.skipif(bool(visible_gpus(os.environ)), reason="this machine has a GPU, which the arguments would harm")
@pytest.mark.parametrize("function", list(CALLS))
def test_the_bindings_take_our_arguments(function: str) -> None:
    """Without a driver they get as far as that: what is not well-formed would be a TypeError."""
    pytest.importorskip("cuda.bindings.runtime", reason="the package cuda-bindings is not installed")
    with pytest.raises(InternalError, match=rf"^{function} failed: .* \(cudaError\w+\)$"):
        CALLS[function](Cuda.open("gpu"))


def test_the_bindings_are_named_when_they_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(UnavailableError, match=re.escape("cuda-bindings package: " + install_command("gpu"))):
        Cuda.open("gpu")


def test_errors_have_cuda_s_words(gpus: FakeGpus, cuda: Cuda) -> None:
    with pytest.raises(InternalError, match=r"^cudaSetDevice failed: text of 101 \(cudaErrorInvalidDevice\)$"):
        cuda.use(7)
    gpus.failing["cudaMalloc"] = cudaError_t.cudaErrorMemoryAllocation
    with pytest.raises(InternalError, match=r"^cudaMalloc failed: text of 2 \(cudaErrorMemoryAllocation\)$"):
        cuda.allocate(1)


def test_a_device_is_used_for_a_while(gpus: FakeGpus, cuda: Cuda) -> None:
    def fail() -> None:
        with cuda.on(1):
            assert gpus.device() == 1
            cuda.use(7)

    with pytest.raises(InternalError):
        fail()
    assert gpus.device() == 0


def test_copies_are_there_after_waiting(gpus: FakeGpus, cuda: Cuda) -> None:
    stream = cuda.create_stream()
    source, target = cuda.allocate_pinned(16), cuda.allocate(16)
    cuda.copy(target, source, 16, stream)
    assert gpus.bytes_at(target, 16) == b"\xa5" * 16
    memory = gpus.find(source)
    assert memory is not None
    memory.memory[:] = 7
    cuda.wait_asleep(stream, cuda.create_event())
    assert gpus.bytes_at(target, 16) == b"\7" * 16
    cuda.free(target)
    cuda.free_pinned(source)
    cuda.destroy_stream(stream)
    assert gpus.in_use() == gpus.in_use(pinned=True) == 0


@pytest.mark.parametrize(("priority", "level"), [(1, -5), (0, 0), (-1, 0)])
def test_priorities(gpus: FakeGpus, cuda: Cuda, priority: int, level: int) -> None:
    assert gpus.stream(cuda.create_stream(priority=priority)).priority == level


def test_graphs_run_what_was_recorded_each_time(gpus: FakeGpus, cuda: Cuda) -> None:
    stream = cuda.create_stream()
    source, target = cuda.allocate(4), cuda.allocate(4)
    cuda.begin_capture(stream)
    cuda.copy(target, source, 4, stream)
    graph = cuda.end_capture(stream)
    cuda.wait(stream)
    for value in (1, 2):
        memory = gpus.find(source)
        assert memory is not None
        memory.memory[:] = value
        cuda.launch(graph, stream)
        cuda.wait(stream)
        assert gpus.bytes_at(target, 4) == bytes([value] * 4)
    cuda.destroy_graph(graph)
    assert gpus.graphs == {}


def test_handles_of_other_processes(gpus: FakeGpus, cuda: Cuda) -> None:
    peer = gpus.peer(b"abcd", device=1)
    with pytest.raises(InternalError, match="cudaIpcOpenMemHandle failed"):
        cuda.open_handle(PEER_HANDLE)
    with pytest.raises(InternalError, match="64 bytes, got 3"):
        cuda.open_handle(b"abc")
    cuda.use(1)
    assert cuda.open_handle(PEER_HANDLE) == (peer.address, 4)
    cuda.close_handle(peer.address)
    assert gpus.opened == []
