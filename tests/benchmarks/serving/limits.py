"""The limit of this machine: onnxruntime called in a loop, with no server around it."""

import time
from pathlib import Path

import numpy as np

from tests.benchmarks.serving.figures import Limit
from tests.benchmarks.serving.workload import Row


def bare_onnxruntime(row: Row, onnx_folder: Path, seconds: float) -> Limit:
    """Inferences a second of one session with the threads that every server gives it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2 if row.network.name == "resnet50" else 1
    options.inter_op_num_threads = 1
    path = str(onnx_folder / f"{row.network.name}.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {"INPUT0": np.asarray(row.network.values(), np.float32).reshape(1, *row.network.shape)}
    for _ in range(3):
        session.run(["OUTPUT0"], feed)
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        session.run(["OUTPUT0"], feed)
        count += 1
    return Limit(row.name, round(count / (time.perf_counter() - begun), 1))
