"""
What the onnxruntime backend costs beside the library: `Instance.execute` against a bare `session.run` loop.

    python -m tests.benchmarks.onnx_overhead [--model FILE] [--seconds S]

Prints microseconds for each batch and their ratio. The bare loop runs the same session with the same rows, already
concatenated; the backend also gathers the requests, scatters the outputs and makes the responses.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.tensor import Tensor
from tests.support.batches import RecordedBatch, a_request
from tests.support.onnx_loading import Loaded, blank
from tests.support.onnx_models import a_model, a_node, a_value

BATCHES = ((1, 1), (8, 1), (32, 1), (1, 32))
"""Requests of a batch, rows of each."""


def small_network() -> bytes:
    """128 → 64 → 10, with one non-linearity."""
    generator = np.random.default_rng(0)
    return a_model(
        [
            a_node("MatMul", ["INPUT0", "FIRST"], ["HIDDEN"]),
            a_node("Relu", ["HIDDEN"], ["ACTIVE"]),
            a_node("MatMul", ["ACTIVE", "SECOND"], ["OUTPUT0"]),
        ],
        [a_value("INPUT0", ["n", 128])],
        [a_value("OUTPUT0", ["n", 10])],
        FIRST=generator.normal(size=(128, 64)).astype(np.float32),
        SECOND=generator.normal(size=(64, 10)).astype(np.float32),
    )


def microseconds(call: Callable[[], object], seconds: float) -> float:
    """The median time of a call."""
    times: list[int] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return float(np.median(times)) / 1000


def inputs_of(config: ModelConfig, rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """One request's arrays; variable sizes become 1."""
    generator = np.random.default_rng(rows)
    return {
        spec.name: generator.random((rows, *(max(dim, 1) for dim in spec.dims))).astype(spec.datatype.numpy_dtype)
        for spec in config.inputs
    }


def compare(loaded: Loaded, requests: int, rows: int, seconds: float) -> None:
    arrays = inputs_of(loaded.config, rows)
    prepared = [a_request(loaded.config, arrays) for _ in range(requests)]
    feeds = {name: np.concatenate([array] * requests) for name, array in arrays.items()}
    names = [spec.name for spec in loaded.config.outputs]
    session = loaded.instance._session

    def execute() -> list[Tensor]:
        batch = RecordedBatch(loaded.config, prepared)
        loaded.instance.execute(batch)
        return batch.take_answers()[0][1].outputs

    bare = microseconds(lambda: session.run(names, feeds), seconds)
    ours = microseconds(execute, seconds)
    sys.stdout.write(
        f"{requests:3d} requests x {rows:2d} rows: bare {bare:10.1f} us, backend {ours:10.1f} us, "
        f"ratio {ours / bare:5.2f}, {(ours - bare) / requests:6.2f} us more for each request\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--model", type=Path, help="an ONNX file that batches; default: a small network made here")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each figure")
    options = parser.parse_args()
    model = options.model.read_bytes() if options.model else small_network()
    with tempfile.TemporaryDirectory() as directory:
        loaded = Loaded(Path(directory), model, blank(max_batch_size=64)).load()
        for requests, rows in BATCHES:
            compare(loaded, requests, rows, options.seconds)


if __name__ == "__main__":
    main()
