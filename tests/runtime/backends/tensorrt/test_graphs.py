"""CUDA graphs: recorded, launched, recorded again when memory moves, given up where they cannot be had."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from charonia_runtime.backends.tensorrt.graphs import padded_rows
from charonia_runtime.core.config import CudaGraphSpec, Optimization
from charonia_runtime.core.errors import InvalidArgumentError
from tests.support.cuda_runtime import FakeGpus, cudaError_t
from tests.support.tensorrt_models import Loaded, plan_config
from tests.support.tensorrt_runtime import a_plan, an_input, an_output

PLAN = a_plan([an_input("IN", -1, 4)], [an_output("OUT", -1, 4)], "double")
ROWS = np.arange(32, dtype=np.float32).reshape(8, 4)


def load(directory: Path, **optimization: Any) -> Loaded:
    return Loaded(directory, PLAN, plan_config(optimization=Optimization(cuda_graphs=True, **optimization)))


def check(loaded: Loaded, *sizes: int, factor: float = 1) -> None:
    """Run a batch of requests of so many rows."""
    parts = np.split(ROWS[: sum(sizes)] * np.float32(factor), np.cumsum(sizes)[:-1])
    batch = loaded.run(*[{"IN": part} for part in parts])
    for index, part in enumerate(parts):
        np.testing.assert_array_equal(batch.arrays_of(index)["OUT"], part * 2)


def executions(loaded: Loaded) -> int:
    return int(loaded.instance._contexts[0]._context.executions)


def test_the_third_execution_of_a_shape_launches_a_graph(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = load(tmp_path)
    check(loaded, 2)
    check(loaded, 1, 1)
    assert (gpus.launches, executions(loaded)) == (0, 3)  # two runs, one recording
    for factor in range(5):
        check(loaded, 2, factor=factor)
        check(loaded, 1, 1, factor=-factor)
    assert (gpus.launches, executions(loaded)) == (10, 3)


def test_shapes_have_graphs_of_their_own(tmp_path: Path, gpus: FakeGpus) -> None:
    loaded = load(tmp_path)
    for factor in range(1, 8):
        for rows in (8, 3, 1):  # the largest first, so that memory stays where it is
            check(loaded, rows, factor=factor)
    assert gpus.launches == 15
    assert len(gpus.graphs) == 3


def test_a_graph_is_recorded_anew_when_its_memory_has_moved(tmp_path: Path, gpus: FakeGpus) -> None:
    big = [[[1, 4], [4, 4], [1024, 4]]]
    plan = a_plan([an_input("IN", -1, 4, profiles=big)], [an_output("OUT", -1, 4)], "double")
    loaded = Loaded(tmp_path, plan, plan_config(optimization=Optimization(cuda_graphs=True)))
    for factor in range(3):
        check(loaded, 2, factor=factor)
    assert gpus.launches == 1
    large = np.ones((1000, 4), np.float32)
    np.testing.assert_array_equal(loaded.run({"IN": large}).arrays_of(0)["OUT"], large * 2)
    for factor in range(3):
        check(loaded, 2, factor=factor)
    assert gpus.launches == 3
    assert len(gpus.graphs) == 1


def test_a_model_that_cannot_be_recorded_does_without(
    tmp_path: Path, gpus: FakeGpus, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = load(tmp_path)
    gpus.failing["cudaStreamEndCapture"] = cudaError_t.cudaErrorStreamCaptureInvalidated
    for factor in range(5):
        check(loaded, 2, factor=factor)
    assert gpus.launches == 0
    assert caplog.text.count("CUDA graphs cannot be recorded") == 1


def test_free_shapes_are_not_recorded_forever(tmp_path: Path, gpus: FakeGpus) -> None:
    ranges = [[[1, 1], [1, 4], [1, 999]]]
    plan = a_plan([an_input("IN", -1, -1, profiles=ranges)], [an_output("OUT", -1, -1)], "double")
    loaded = Loaded(tmp_path, plan, plan_config(optimization=Optimization(cuda_graphs=True)))
    for width in range(100, 0, -1):
        for _ in range(3):
            sent = np.full((1, width), width, np.float32)
            np.testing.assert_array_equal(loaded.run({"IN": sent}).arrays_of(0)["OUT"], sent * 2)
    assert len(gpus.graphs) == 64


def test_batches_are_padded_to_a_configured_graph(tmp_path: Path, gpus: FakeGpus) -> None:
    specs = (CudaGraphSpec(4, {"IN": (4,)}, 2), CudaGraphSpec(8, {"IN": (4,)}, 7))
    loaded = load(tmp_path, cuda_graph_specs=specs)
    assert len(gpus.graphs) == 2  # they are there before the first request
    for sizes in [(4,), (3,), (1, 1), (2, 1), (1, 2)]:
        check(loaded, *sizes, factor=sum(sizes))
    for sizes in [(7,), (4, 4), (5, 2)]:
        check(loaded, *sizes)
    assert (gpus.launches, executions(loaded)) == (8, 6)


@pytest.mark.parametrize(
    "plan",
    [
        a_plan([an_input("IN", -1, -1)], [an_output("OUT", -1, -1)]),
        a_plan(
            [an_input("IN", -1, 2), an_input("SIZES", 2, datatype="INT64", values=[[[1, 1], [2, 2], [6, 8]]])],
            [an_output("OUT", -1, -1), an_output("SIZES_OUT", 2, datatype="INT64", shape_tensor=True)],
            "resize",
        ),
    ],
)
def test_a_graph_must_be_specified_completely(tmp_path: Path, gpus: FakeGpus, plan: bytes) -> None:
    optimization = Optimization(cuda_graphs=True, cuda_graph_specs=(CudaGraphSpec(2),))
    with pytest.raises(InvalidArgumentError, match=r"^optimization\.cuda\.graph_spec of model 'm' must give the dims"):
        Loaded(tmp_path, plan, plan_config(optimization=optimization))
    assert all(stream.destroyed for stream in gpus.streams.values())


@pytest.mark.parametrize(
    ("rows", "width", "padded"),
    [(4, 3, 4), (2, 3, 4), (1, 3, None), (5, 3, 8), (8, 3, 8), (9, 3, None), (3, 2, None), (6, 2, 6), (5, 2, None)],
)
def test_the_smallest_graph_that_takes_a_batch(rows: int, width: int, padded: int | None) -> None:
    specs = [
        CudaGraphSpec(8, {"IN": (3,)}, 1 + 4),
        CudaGraphSpec(4, {"IN": (3,)}, 2),
        CudaGraphSpec(6, {"IN": (2,)}),
    ]
    assert padded_rows(specs, rows, {"IN": (rows, width)}) == padded
