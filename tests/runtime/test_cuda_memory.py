"""Clients' CUDA memory through a real server. Without a GPU the server says no; with one it reads and writes there."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from charonia_runtime.devices import visible_gpus
from tests.support.processes import ServerProcess

needs_gpu = pytest.mark.skipif(not visible_gpus(os.environ), reason="this machine has no GPU")
CONFIG = """
backend: "identity"
max_batch_size: 0
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
"""
HANDLE = "AAAA" * 21 + "AA=="  # 64 bytes in base64


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    repository = tmp_path_factory.mktemp("models")
    (repository / "same" / "1").mkdir(parents=True)
    (repository / "same" / "config.pbtxt").write_text(CONFIG)
    with ServerProcess(repository, Path(repository).parent / "cuda_memory.log") as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def protocol(request: pytest.FixtureRequest) -> Any:
    return http_client if request.param == "http" else grpc_client


@pytest.fixture
def client(server: ServerProcess, protocol: Any) -> Iterator[Any]:
    address = server.http if protocol is http_client else server.grpc
    with protocol.InferenceServerClient(address) as client:
        yield client


def test_a_handle_that_opens_nothing(client: Any, protocol: Any) -> None:
    """The texts of Triton's own GPU build, with and without a GPU."""
    with pytest.raises(protocol.InferenceServerException) as caught:
        client.register_cuda_shared_memory("region", HANDLE.encode(), 0, 16)
    assert caught.value.message() == "failed to register shared memory region: invalid args"
    client.unregister_cuda_shared_memory("region")
    status = client.get_cuda_shared_memory_status()
    assert not (status if isinstance(status, list) else status.regions)


@needs_gpu
def test_regions_of_a_gpu(client: Any, protocol: Any) -> None:
    memory = pytest.importorskip("tritonclient.utils.cuda_shared_memory", reason="cuda-bindings is not installed")
    sent = np.arange(1024, dtype=np.float32)
    regions = {name: memory.create_shared_memory_region(name, sent.nbytes, 0) for name in ("given", "made")}
    try:
        memory.set_shared_memory_region(regions["given"], [sent])
        for name, region in regions.items():
            client.register_cuda_shared_memory(name, memory.get_raw_handle(region), 0, sent.nbytes)
        tensor = protocol.InferInput("IN", [1024], "FP32")
        tensor.set_shared_memory("given", sent.nbytes)
        output = protocol.InferRequestedOutput("OUT")
        output.set_shared_memory("made", sent.nbytes)
        for _ in range(3):
            client.infer("same", [tensor], outputs=[output])
        np.testing.assert_array_equal(memory.get_contents_as_numpy(regions["made"], np.float32, [1024]), sent)
        np.testing.assert_array_equal(client.infer("same", [tensor]).as_numpy("OUT"), sent)
    finally:
        client.unregister_cuda_shared_memory()
        for region in regions.values():
            memory.destroy_shared_memory_region(region)
