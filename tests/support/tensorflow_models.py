"""
TensorFlow models, and models loaded by the tensorflow backend without the engine.

This module imports tensorflow: tests import it after `pytest.importorskip("tensorflow")`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from charonia_runtime.backends.tensorflow.library import DATATYPES, import_library
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support import loaded_models
from tests.support.configs import a_config

tensorflow = import_library()
NUMBERS = {datatype: number for number, datatype in DATATYPES.items()}


def element(datatype: DataType) -> Any:
    return tensorflow.as_dtype(NUMBERS[datatype])


def a_spec(name: str, shape: Sequence[int | None] | None, datatype: DataType = DataType.FP32) -> Any:
    return tensorflow.TensorSpec(shape, element(datatype), name=name)


def a_signature(function: Callable[..., Mapping[str, Any]], *specs: Any) -> Any:
    """One signature of a model; its inputs have the specs' names."""
    return tensorflow.function(function, input_signature=specs, autograph=False)


def save(directory: Path, module: Any = None, **signatures: Any) -> Path:
    """A model's folder with a SavedModel as version 1; `module` is what the signatures' variables belong to."""
    module = tensorflow.Module() if module is None else module
    for name, signature in signatures.items():
        setattr(module, f"_{name}", signature)
    path = directory / "1" / "model.savedmodel"
    tensorflow.saved_model.save(module, str(path), signatures=signatures)
    return directory


def save_pass(directory: Path, datatype: DataType, rank: int = 2) -> Path:
    """INPUT0, INPUT1 → OUTPUT0, OUTPUT1."""
    specs = [a_spec(name, [None] * rank, datatype) for name in ("INPUT0", "INPUT1")]
    return save(
        directory,
        serving_default=a_signature(
            lambda first, second: {
                "OUTPUT0": tensorflow.identity(first), "OUTPUT1": tensorflow.identity(second)
            },
            *specs,
        ),
    )  # fmt: skip


def save_difference(directory: Path, shape: Sequence[int | None], datatype: DataType = DataType.FP32) -> Path:
    """LEFT - RIGHT."""
    signature = a_signature(
        lambda left, right: {"DIFFERENCE": left - right},
        a_spec("LEFT", shape, datatype),
        a_spec("RIGHT", shape, datatype),
    )
    return save(directory, serving_default=signature)


def save_graph(directory: Path, build: Callable[[Any], Any]) -> Path:
    """A model's folder with what `build` puts into a graph; it is given `tensorflow.compat.v1`."""
    graph = tensorflow.Graph()
    with graph.as_default():
        build(tensorflow.compat.v1)
    (directory / "1").mkdir(parents=True, exist_ok=True)
    (directory / "1" / "model.graphdef").write_bytes(graph.as_graph_def().SerializeToString())
    return directory


def tensorflow_config(**changes: Any) -> ModelConfig:
    """Of a SavedModel, unless `changes` say otherwise, without tensors and batches."""
    fields = {"backend": "tensorflow", "platform": "tensorflow_savedmodel", "max_batch_size": 0}
    return a_config("m", **(fields | {"inputs": (), "outputs": ()} | changes))


class Loaded(loaded_models.Loaded):
    backend_name = "tensorflow"
