"""The same on a GPU: plans built by TensorRT here and now. Skipped where the package, its libraries or a GPU are not."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from charonia_runtime.core.config import Optimization
from charonia_runtime.core.request import RequestedOutput
from charonia_runtime.devices import visible_gpus
from tests.support.batches import RecordedBatch, a_batch, a_request
from tests.support.loaded_models import execute
from tests.support.tensorrt_models import Loaded, error_of, plan_config

pytestmark = pytest.mark.skipif(not visible_gpus(os.environ), reason="this machine has no GPU")
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def trt() -> Any:
    pytest.importorskip("cuda.bindings.runtime", reason="the package cuda-bindings is not installed")
    return pytest.importorskip(
        "tensorrt", reason="the package tensorrt, or a library that it needs, is not installed", exc_type=ImportError
    )


@pytest.fixture
def build(trt: Any) -> Callable[..., bytes]:
    """A plan of one input IN and one output OUT: what `layer` makes of the network and its input."""

    def make(layer: Callable[[Any, Any], Any], shape: tuple[int, ...], *profiles: Any) -> bytes:
        builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
        network, config = builder.create_network(), builder.create_builder_config()
        given = network.add_input("IN", trt.float32, shape)
        output = layer(network, given).get_output(0)
        output.name = "OUT"
        network.mark_output(output)
        for ranges in profiles:
            profile = builder.create_optimization_profile()
            profile.set_shape("IN", *ranges)
            config.add_optimization_profile(profile)
        return bytes(builder.build_serialized_network(network, config))

    return make


@pytest.fixture
def double(trt: Any, build: Callable[..., bytes]) -> bytes:
    ranges = [((1, 4), (4, 4), (8, 4)), ((1, 4), (32, 4), (64, 4))]
    return build(lambda network, x: network.add_elementwise(x, x, trt.ElementWiseOperation.SUM), (-1, 4), *ranges)


@pytest.mark.parametrize("graphs", [False, True])
def test_numbers(tmp_path: Path, double: bytes, graphs: bool) -> None:
    loaded = Loaded(tmp_path, double, plan_config(optimization=Optimization(cuda_graphs=graphs), profiles=("0", "1")))
    assert loaded.config.max_batch_size == 64
    for factor in range(1, 8):
        batch = loaded.run({"IN": ROWS[:1] * factor}, {"IN": ROWS[1:] * factor})
        np.testing.assert_array_equal(batch.arrays_of(0)["OUT"], ROWS[:1] * factor * 2)
        np.testing.assert_array_equal(batch.arrays_of(1)["OUT"], ROWS[1:] * factor * 2)
    many = np.ones((60, 4), np.float32)
    np.testing.assert_array_equal(loaded.run({"IN": many}).arrays_of(0)["OUT"], many * 2)
    loaded.close()


def test_bounds(tmp_path: Path, double: bytes) -> None:
    loaded = Loaded(tmp_path, double, plan_config(max_batch_size=8))
    error = error_of(loaded.run({"IN": np.ones((9, 4), np.float32)}))
    assert "dimension 0 to be between 1 and 8 but received 9" in error.message


def test_tensors_stay_on_the_gpu(tmp_path: Path, double: bytes) -> None:
    loaded = Loaded(tmp_path, double)
    batch = a_batch(loaded.config, {"IN": ROWS})
    for _ in range(3):
        batch.requests[0].outputs = [RequestedOutput("OUT", on_device=True)]
        execute(loaded.instance, batch)
        (tensor,) = batch.responses_to(0)[0].outputs
        assert tensor.on_device is not None
        following = a_request(loaded.config, {"IN": ROWS})
        following.inputs["IN"].data = tensor.data
        batch = RecordedBatch(loaded.config, [following])
    np.testing.assert_array_equal(tensor.as_numpy(), ROWS * 8)


def test_outputs_whose_shapes_depend_on_data(tmp_path: Path, build: Callable[..., bytes]) -> None:
    loaded = Loaded(tmp_path, build(lambda network, x: network.add_non_zero(x), (6,)))
    sent = np.array([0, 1, 0, 2, 3, 0], np.float32)
    assert loaded.run({"IN": sent}).arrays_of(0)["OUT"].tolist() == [[1, 3, 4]]
    assert loaded.run({"IN": sent * 0}).arrays_of(0)["OUT"].shape == (1, 0)
