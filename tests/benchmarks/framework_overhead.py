"""
What a backend and the server cost beside a framework: one row at a time, all in the same run.

    python -m tests.benchmarks.framework_overhead [--seconds S] [--without-server] [NAME ...]

Prints a Markdown table, with a line for each framework that is installed:

    bare       calls a second of the framework alone, one after the other in one thread
    backend    the same through `Instance.execute`, requests and responses included
    served     requests a second over HTTP from 8 connections, each with one row in binary form; no batches are made
    p50        of those, in milliseconds

All run a network of 128 → 64 → 10; fil runs 20 trees and dali multiplies. The load comes from wrk.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.http as triton

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.scheduling import Direct
from charonia_runtime.protocols.model_config import complete, render_text
from tests.benchmarks.onnx_overhead import microseconds, small_network
from tests.support.batches import RecordedBatch, a_request
from tests.support.configs import a_config, a_tensor
from tests.support.frameworks import is_installed
from tests.support.processes import ServerProcess

ROW = np.random.default_rng(0).random((1, 128), np.float32)
CONNECTIONS = 8
POST = Path(__file__).parent / "serving" / "programs" / "post.lua"
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

    (directory / "1" / "model.onnx").write_bytes(small_network())
    session = library.InferenceSession(directory / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    return a_model("onnxruntime", "INPUT0", "OUTPUT0", 10), lambda: session.run(None, {"INPUT0": ROW})


def openvino(directory: Path) -> tuple[ModelConfig, Bare]:
    import openvino as library

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


def tensorflow(directory: Path) -> tuple[ModelConfig, Bare]:
    from tests.support.tensorflow_models import a_signature, a_spec, save
    from tests.support.tensorflow_models import tensorflow as library

    generator = np.random.default_rng(0)
    module = library.Module()
    module.first, module.second = (
        library.Variable(generator.normal(size=size).astype(np.float32)) for size in ((128, 64), (64, 10))
    )

    def network(rows: Any) -> dict[str, Any]:
        return {"OUTPUT0": library.matmul(library.nn.relu(library.matmul(rows, module.first)), module.second)}

    save(directory, module, serving_default=a_signature(network, a_spec("INPUT0", [None, 128])))
    loaded = library.saved_model.load(str(directory / "1" / "model.savedmodel"))
    signature = loaded.signatures["serving_default"]
    config = a_model("tensorflow", "INPUT0", "OUTPUT0", 10, platform="tensorflow_savedmodel")

    def bare() -> object:
        return signature(INPUT0=library.constant(ROW))["OUTPUT0"].numpy()

    return config, bare


def dali(directory: Path) -> tuple[ModelConfig, Bare]:
    from tests.support.dali_models import dali as library
    from tests.support.dali_models import save, source

    def build() -> Any:
        return source("INPUT0", DataType.FP32, 1) * np.float32(2)

    save(directory, build)
    pipeline = library.pipeline.Pipeline.deserialize(
        filename=str(directory / "1" / "model.dali"), prefetch_queue_depth=1, exec_async=False, exec_pipelined=False
    )

    def bare() -> object:
        pipeline.feed_input("INPUT0", ROW)
        return pipeline.run()[0].as_array()

    return a_model("dali", "INPUT0", "OUTPUT0", 128), bare


FRAMEWORKS = {
    "onnxruntime": onnxruntime, "pytorch": pytorch, "tensorflow": tensorflow, "openvino": openvino, "fil": fil,
    "dali": dali,
}  # fmt: skip
LIBRARIES = {"pytorch": "torch", "fil": "treelite", "dali": "nvidia.dali"}


@dataclass(frozen=True)
class Line:
    """One framework's figures. Calls in microseconds; None where no server was asked."""

    name: str
    bare: float
    backend: float
    served: float | None = None
    p50: float | None = None

    def markdown(self) -> str:
        served = "" if self.served is None else f"{self.served:,.0f}"
        share = "" if self.served is None else f"{self.served * self.bare / 1e6:.2f}"
        p50 = "" if self.p50 is None else f"{self.p50:.2f}"
        return f"| {self.name} | {1e6 / self.bare:,.0f} | {1e6 / self.backend:,.0f} | {served} | {share} | {p50} |\n"


HEADER = "| framework | bare /s | backend /s | served /s | served : bare | p50 ms |\n|---|---:|---:|---:|---:|---:|\n"


def compare(name: str, repository: Path, seconds: float, *, served: bool) -> Line:
    directory = repository / "m"
    (directory / "1").mkdir(parents=True)
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
    if not served:
        return Line(name, alone, ours)
    unbatched = replace(config, scheduling=Direct())
    (directory / "config.pbtxt").write_text(render_text(complete(unbatched)))
    return Line(name, alone, ours, *load(repository, config.inputs[0].name, max(round(seconds), 1)))


def load(repository: Path, source: str, seconds: int) -> tuple[float, float]:
    """Requests a second and the median of their times in milliseconds, of a server of its own."""
    tensor = triton.InferInput(source, list(ROW.shape), "FP32")
    tensor.set_data_from_numpy(ROW)
    body, header_length = triton.InferenceServerClient.generate_request_body([tensor])
    (repository / "body").write_bytes(body)
    (repository / "headers").write_text(f"Inference-Header-Content-Length: {header_length}\n")
    flags = ("--model-control-mode=explicit", "--load-model=m")
    with ServerProcess(repository, repository / "log", *flags, wait_seconds=120) as server:
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", "-s", str(POST), f"http://{server.http}/v2/models/m/infer"]
        environment = {**os.environ, "BODY": str(repository / "body"), "HEADERS": str(repository / "headers")}
        for duration in (1, seconds):
            done = subprocess.run(
                [*command, f"-d{duration}s"], env=environment, capture_output=True, text=True, check=True
            )
    found = re.search(r"RESULT (\S+) (\S+) (\S+) (\S+) (\S+)", done.stdout + done.stderr)
    if found is None or float(found[5]):
        raise RuntimeError(f"the server did not answer: {done.stdout}{done.stderr}")
    return float(found[1]) / float(found[2]) * 1e6, float(found[3]) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FRAMEWORKS)}; default: all")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each figure")
    parser.add_argument("--without-server", action="store_true", help="leave out what is served")
    options = parser.parse_args()
    if unknown := set(options.names) - FRAMEWORKS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    served = not options.without_server and shutil.which("wrk") is not None
    if not served and not options.without_server:
        sys.stderr.write("wrk is not installed: nothing is served\n")
    sys.stdout.write(HEADER)
    for name in options.names or FRAMEWORKS:
        if not is_installed(LIBRARIES.get(name, name)):
            sys.stderr.write(f"{name} is not installed\n")
            continue
        with tempfile.TemporaryDirectory() as directory:
            line = compare(name, Path(directory), options.seconds, served=served)
        sys.stdout.write(line.markdown())
        sys.stdout.flush()


if __name__ == "__main__":
    main()
