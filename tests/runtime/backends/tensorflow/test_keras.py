"""What most SavedModels are: models that Keras has exported, without a configuration, against Keras itself."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="the package tensorflow is not installed")

from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_tensor
from tests.support.tensorflow_models import Loaded, tensorflow, tensorflow_config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    keras = pytest.importorskip("keras", reason="the package keras is not installed")


def exported(model: Any, directory: Path) -> Loaded:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.export(str(directory / "1" / "model.savedmodel"), verbose=False)
    return Loaded(directory, tensorflow_config()).load()


def test_pictures(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([
        keras.Input((8, 8, 1), name="image"), keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.BatchNormalization(), keras.layers.Flatten(), keras.layers.Dense(5, activation="softmax"),
    ])  # fmt: skip
    loaded = exported(model, tmp_path)
    assert loaded.config.inputs == (a_tensor("image", DataType.FP32, 8, 8, 1),)
    images = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    batch = loaded.run({"image": images[:1]}, {"image": images[1:]})
    answers = np.concatenate([batch.arrays_of(index)["output_0"] for index in range(2)])
    np.testing.assert_allclose(answers, model.predict(images, verbose=0), rtol=1e-5, atol=1e-7)


def test_texts(tmp_path: Path) -> None:
    """A vocabulary is a table that the model brings in a file of its own."""
    keras.utils.set_random_seed(0)
    words = keras.layers.TextVectorization(max_tokens=10, output_sequence_length=4)
    words.adapt(["a b c", "b c d"])
    model = keras.Sequential([
        keras.Input((1,), dtype="string", name="text"), words, keras.layers.Embedding(10, 3),
        keras.layers.GlobalAveragePooling1D(),
    ])  # fmt: skip
    loaded = exported(model, tmp_path)
    assert loaded.config.inputs == (a_tensor("text", DataType.BYTES, 1),)
    texts = np.array([[b"a b"], [b"d unknown c"]], object)
    answer = loaded.run({"text": texts}).arrays_of(0)["output_0"]
    np.testing.assert_allclose(answer, model(tensorflow.constant(texts)).numpy(), rtol=1e-6)
