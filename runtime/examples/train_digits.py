"""
Train the example model: handwritten digits of 8x8 pixels, from the data set that scikit-learn carries.

    python runtime/examples/train_digits.py [MODEL_FOLDER]

Needs scikit-learn and onnx. Every fifth image is held out of training; its accuracy is printed at the end.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

HERE = Path(__file__).parent
HELD_OUT_STEP = 5
SEED = 0
PIXEL_MAXIMUM = 16.0

Array = np.ndarray[Any, Any]


def training_and_held_out() -> tuple[Array, Array, Array, Array]:
    """Images and digits to train with, images and digits to judge by. Pixels go from 0 to 16."""
    digits = load_digits()
    images = digits.data.astype(np.float32)
    held_out = np.arange(len(images)) % HELD_OUT_STEP == 0
    return images[~held_out], digits.target[~held_out], images[held_out], digits.target[held_out]


def train() -> MLPClassifier:
    """A network of one hidden layer."""
    images, digits, _, _ = training_and_held_out()
    network = MLPClassifier(hidden_layer_sizes=(64,), max_iter=1000, random_state=SEED)
    return network.fit(images / PIXEL_MAXIMUM, digits)


def to_onnx(network: MLPClassifier) -> onnx.ModelProto:
    """The network as a graph: `IMAGE` (64 pixels) → `PROBABILITIES` (one for each digit)."""
    weights = [layer.astype(np.float32) for layer in network.coefs_]
    biases = [layer.astype(np.float32) for layer in network.intercepts_]
    initializers = [
        numpy_helper.from_array(np.float32(1 / PIXEL_MAXIMUM), "SCALE"),
        *(numpy_helper.from_array(layer, f"WEIGHTS{index}") for index, layer in enumerate(weights)),
        *(numpy_helper.from_array(layer, f"BIAS{index}") for index, layer in enumerate(biases)),
    ]
    nodes = [
        helper.make_node("Mul", ["IMAGE", "SCALE"], ["SCALED"]),
        helper.make_node("Gemm", ["SCALED", "WEIGHTS0", "BIAS0"], ["HIDDEN"]),
        helper.make_node("Relu", ["HIDDEN"], ["ACTIVE"]),
        helper.make_node("Gemm", ["ACTIVE", "WEIGHTS1", "BIAS1"], ["LOGITS"]),
        helper.make_node("Softmax", ["LOGITS"], ["PROBABILITIES"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("IMAGE", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("PROBABILITIES", TensorProto.FLOAT, ["batch", 10])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, write `1/model.onnx`, print the accuracy."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "models" / "digits"
    network = train()
    path = folder / "1" / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_onnx(network).SerializeToString())
    _, _, images, digits = training_and_held_out()
    accuracy = network.score(images / PIXEL_MAXIMUM, digits)
    sys.stdout.write(f"{path}: {path.stat().st_size} bytes, accuracy {accuracy:.4f} on {len(digits)} held-out images\n")


if __name__ == "__main__":
    main()
