"""A whole server, from its command line, with the clients that its users have."""

import asyncio
import threading
import urllib.request
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
import tritonclient.utils.shared_memory

from tests.support import real_models
from tests.support.processes import ServerProcess

EXAMPLES = Path(__file__).resolve().parents[2] / "runtime/examples/models"
CLIENTS = {"http": tritonclient.http, "grpc": tritonclient.grpc}
ASYNC_CLIENTS = {"http": tritonclient.http.aio, "grpc": tritonclient.grpc.aio}


@pytest.fixture(scope="module")
def server(real_model_files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    repository = real_models.write_repository(folder / "models", real_model_files)
    (repository / "digits").symlink_to(EXAMPLES / "digits")
    with ServerProcess(repository, folder / "log") as process:
        yield process


@pytest.fixture(params=sorted(CLIENTS))
def wire(request):
    return request.param


def inputs_for(module, arrays):
    inputs = []
    for name, array in arrays.items():
        tensor = module.InferInput(name, list(array.shape), tritonclient.utils.np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        inputs.append(tensor)
    return inputs


def address(server, wire):
    return getattr(server, wire)


@pytest.mark.parametrize("name", sorted(real_models.MODELS))
def test_real_models_answer_as_bare_onnxruntime_does(server, wire, name, real_model_files):
    """Bit for bit, through either client, with the model's own configuration derived from its graph."""
    session = onnxruntime.InferenceSession(real_model_files[name], providers=["CPUExecutionProvider"])
    model = real_models.MODELS[name]
    arrays = model.request(2 if model.batches else 1, np.random.default_rng(7))
    expected = dict(zip([output.name for output in session.get_outputs()], session.run(None, arrays), strict=True))

    with CLIENTS[wire].InferenceServerClient(address(server, wire)) as client:
        result = client.infer(name, inputs_for(CLIENTS[wire], arrays))

    for output, array in expected.items():
        np.testing.assert_array_equal(result.as_numpy(output), array, strict=True)


async def test_asynchronous_clients(server, wire):
    module = ASYNC_CLIENTS[wire]
    images = np.random.default_rng(0).integers(0, 17, (8, 1, 64)).astype(np.float32)

    async with module.InferenceServerClient(address(server, wire)) as client:
        alone = [await client.infer("digits", inputs_for(module, {"IMAGE": image})) for image in images]
        together = await asyncio.gather(
            *(client.infer("digits", inputs_for(module, {"IMAGE": image})) for image in images)
        )

    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one.as_numpy("PROBABILITIES"), other.as_numpy("PROBABILITIES"), rtol=1e-5)


def test_classification_through_either_client(server, wire):
    module = CLIENTS[wire]
    image = np.zeros((1, 64), np.float32)

    with module.InferenceServerClient(address(server, wire)) as client:
        output = module.InferRequestedOutput("PROBABILITIES", class_count=2)
        result = client.infer("digits", inputs_for(module, {"IMAGE": image}), outputs=[output])

    labels = result.as_numpy("PROBABILITIES")
    assert labels.shape == (1, 2)
    value, index, label = labels[0, 0].decode().split(":")
    assert 0 < float(value) <= 1
    assert label == ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"][int(index)]


def test_system_shared_memory_both_ways(server, wire):
    module = CLIENTS[wire]
    memory = tritonclient.utils.shared_memory
    image = np.arange(64, dtype=np.float32).reshape(1, 64)
    region = memory.create_shared_memory_region("digits", f"/charonia_test_{wire}", 256 + 40)
    try:
        memory.set_shared_memory_region(region, [image])
        with module.InferenceServerClient(address(server, wire)) as client:
            plain = client.infer("digits", inputs_for(module, {"IMAGE": image})).as_numpy("PROBABILITIES")
            client.register_system_shared_memory("digits", f"/charonia_test_{wire}", 256 + 40)
            tensor = module.InferInput("IMAGE", [1, 64], "FP32")
            tensor.set_shared_memory("digits", 256)
            output = module.InferRequestedOutput("PROBABILITIES")
            output.set_shared_memory("digits", 40, offset=256)
            client.infer("digits", [tensor], outputs=[output])
            client.unregister_system_shared_memory("digits")
            shared = memory.get_contents_as_numpy(region, np.float32, [1, 10], offset=256).copy()
    finally:
        memory.destroy_shared_memory_region(region)

    np.testing.assert_array_equal(shared, plain)


def test_many_clients_at_once_each_get_their_own_answer(server, wire):
    """32 threads, each with images of its own: nothing is lost, mixed up or answered twice."""
    module = CLIENTS[wire]
    images = np.random.default_rng(1).integers(0, 17, (32, 1, 64)).astype(np.float32)
    expected = []
    with module.InferenceServerClient(address(server, wire)) as client:
        expected = [
            client.infer("digits", inputs_for(module, {"IMAGE": image})).as_numpy("PROBABILITIES") for image in images
        ]
    wrong: list[int] = []

    def ask(number):
        with module.InferenceServerClient(address(server, wire)) as client:
            for _ in range(20):
                result = client.infer("digits", inputs_for(module, {"IMAGE": images[number]}), request_id=str(number))
                response = result.get_response()
                if (response["id"] if wire == "http" else response.id) != str(number):
                    wrong.append(number)
                if not np.allclose(result.as_numpy("PROBABILITIES"), expected[number], rtol=1e-5):
                    wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_statistics_and_metrics_tell_the_same(server):
    with tritonclient.http.InferenceServerClient(server.http) as client:
        before = client.get_inference_statistics("text_direction")["model_stats"][0]["inference_count"]
        arrays = real_models.MODELS["text_direction"].request(3, np.random.default_rng(3))
        client.infer("text_direction", inputs_for(tritonclient.http, arrays))
        after = client.get_inference_statistics("text_direction")["model_stats"][0]["inference_count"]
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as response:
        text = response.read().decode()

    assert after == before + 3
    assert f'nv_inference_count{{model="text_direction",version="1"}} {after}' in text.splitlines()
