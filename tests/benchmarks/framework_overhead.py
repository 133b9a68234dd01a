"""
What a backend costs beside its framework: `Instance.execute` of one row against the framework's own loop.

    python -m tests.benchmarks.framework_overhead [--seconds S] [NAME ...]

Prints microseconds for each call and their ratio, for each framework that is installed. All run a network of
128 → 64 → 10, trees apart.
"""

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.datatypes import DataType
from tests.support.batches import RecordedBatch, a_request
from tests.support.configs import a_config, a_tensor

ROW = np.random.default_rng(0).random((1, 128), np.float32)
Bare = Callable[[], object]
"""The framework's own call, with its input prepared as far as it can be."""


def a_model(backend: str, source: str, output: str, width: int, **changes: Any) -> ModelConfig:
    return a_config(
        "m",
        backend=backend,
        max_batch_size=8,
        inputs=(a_tensor(source, DataType.FP32, 128),),
        outputs=(a_tensor(output, DataType.FP32, width),),
        **changes,
    )


def pytorch(directory: Path) -> tuple[ModelConfig, Bare]:
    import torch

    from tests.support.torch_models import Network, quietly, scripted

    scripted(directory, Network())
    with quietly():
        module = torch.jit.load(directory / "1" / "model.pt").eval()

    def bare() -> object:
        with torch.inference_mode():
            return module(torch.from_numpy(ROW)).numpy()

    return a_model("pytorch", "INPUT__0", "OUTPUT__0", 10), bare


def onnxruntime(directory: Path) -> tuple[ModelConfig, Bare]:
    import onnxruntime as library

    from tests.benchmarks.onnx_overhead import small_network

    (directory / "1" / "model.onnx").write_bytes(small_network())
    session = library.InferenceSession(directory / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    return a_model("onnxruntime", "INPUT0", "OUTPUT0", 10), lambda: session.run(None, {"INPUT0": ROW})


def openvino(directory: Path) -> tuple[ModelConfig, Bare]:
    import openvino as library

    from tests.benchmarks.onnx_overhead import small_network

    (directory / "1" / "model.onnx").write_bytes(small_network())
    request = library.Core().compile_model(directory / "1" / "model.onnx", "CPU").create_infer_request()
    config = a_model("openvino", "INPUT0", "OUTPUT0", 10, default_model_filename="model.onnx")
    return config, lambda: request.infer([ROW], share_inputs=True)


def fil(directory: Path) -> tuple[ModelConfig, Bare]:
    import treelite
    from sklearn.ensemble import RandomForestRegressor

    rows = np.random.default_rng(0).random((200, 128))
    trees = treelite.sklearn.import_model(RandomForestRegressor(20, max_depth=6).fit(rows, rows[:, 0]))
    trees.serialize(directory / "1" / "checkpoint.tl")
    parameters = {"model_type": "treelite_checkpoint", "is_classifier": "false"}
    config = a_model("fil", "input__0", "output__0", 1, parameters=parameters)
    return config, lambda: treelite.gtil.predict(trees, ROW, nthread=1)


FRAMEWORKS = {"onnxruntime": onnxruntime, "pytorch": pytorch, "openvino": openvino, "fil": fil}
LIBRARIES = {"onnxruntime": "onnxruntime", "pytorch": "torch", "openvino": "openvino", "fil": "treelite"}


def microseconds(call: Callable[[], object], seconds: float) -> float:
    """The median time of a call."""
    times: list[int] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return float(np.median(times)) / 1000


def compare(name: str, directory: Path, seconds: float) -> None:
    (directory / "1").mkdir()
    config, bare = FRAMEWORKS[name](directory)
    backend: Any = load_backend(name)(ModelFiles("m", 1, directory, directory / "1"))
    config = backend.auto_complete(config)
    backend.load(config)
    instance = backend.create_instance(Placement("m_0", InstanceKind.CPU))
    requests = [a_request(config, {config.inputs[0].name: ROW})]

    def execute() -> object:
        batch = RecordedBatch(config, requests)
        instance.execute(batch)
        answer = batch.take_answers()[0][1]
        if answer.error is not None:
            raise answer.error
        return answer

    alone, ours = microseconds(bare, seconds), microseconds(execute, seconds)
    sys.stdout.write(f"{name:12s} bare {alone:8.1f} us, backend {ours:8.1f} us, ratio {ours / alone:5.2f}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FRAMEWORKS)}; default: all")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each figure")
    options = parser.parse_args()
    if unknown := set(options.names) - FRAMEWORKS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    for name in options.names or FRAMEWORKS:
        if importlib.util.find_spec(LIBRARIES[name]) is None:
            sys.stdout.write(f"{name:12s} is not installed\n")
            continue
        with tempfile.TemporaryDirectory() as directory:
            compare(name, Path(directory), options.seconds)


if __name__ == "__main__":
    main()
