"""The model repositories that Triton and Charonia get: the very same where a row compares the same backend."""

import shutil
from pathlib import Path

from tests.benchmarks.serving.workload import Network

PROGRAMS = Path(__file__).parent / "programs"
"""Code that runs in the peers' own environments."""
_ROWS_AT_MOST = 64


def write_python(folder: Path, network: Network, batch: int) -> None:
    """The model as a `model.py`, which runs `programs/compute.py`."""
    version = folder / network.name / "1"
    version.mkdir(parents=True)
    shutil.copy(PROGRAMS / "triton_model.py", version / "model.py")
    shutil.copy(PROGRAMS / "compute.py", version)
    _write_config(folder, network, "python", batch)


def write_native(folder: Path, network: Network, batch: int, onnx_folder: Path) -> None:
    """The model in the server's own process: ONNX where it is one, the identity backend where it is none."""
    version = folder / network.name / "1"
    version.mkdir(parents=True)
    if network.is_onnx:
        shutil.copy(onnx_folder / f"{network.name}.onnx", version / "model.onnx")
    _write_config(folder, network, "onnxruntime" if network.is_onnx else "identity", batch)


def _write_config(folder: Path, network: Network, backend: str, batch: int) -> None:
    dims, output_dims = (", ".join(map(str, shape)) for shape in (network.shape, network.output_shape))
    text = f"""name: "{network.name}"
backend: "{backend}"
max_batch_size: {batch or _ROWS_AT_MOST}
input [{{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }}]
output [{{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {output_dims} ] }}]
instance_group [{{ kind: KIND_CPU count: 1 }}]
"""
    if batch:
        text += "dynamic_batching { }\n"
    if backend == "onnxruntime":
        threads = 2 if network.name == "resnet50" else 1
        text += f'parameters {{ key: "intra_op_thread_count" value {{ string_value: "{threads}" }} }}\n'
    (folder / network.name / "config.pbtxt").write_text(text)
