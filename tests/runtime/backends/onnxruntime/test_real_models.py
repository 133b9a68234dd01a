"""Real models give the same bits as the library alone, batched and one by one, without any configuration."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.support.onnx_loading import Loaded, blank
from tests.support.real_models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_as_the_library_alone(name: str, real_model_files: dict[str, Path], tmp_path: Path) -> None:
    model = MODELS[name]
    generator = np.random.default_rng(7)
    requests = [model.request(rows, generator) for rows in ((1, 2, 1) if model.batches else (1,))]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    bare = onnxruntime.InferenceSession(real_model_files[name], options, providers=["CPUExecutionProvider"])
    scalars = {node.name for node in bare.get_inputs() if not node.shape}
    feeds = {
        key: requests[0][key].reshape(()) if key in scalars else np.concatenate([inputs[key] for inputs in requests])
        for key in requests[0]
    }
    expected = dict(zip([node.name for node in bare.get_outputs()], bare.run(None, feeds), strict=True))

    loaded = Loaded(tmp_path, real_model_files[name].read_bytes(), blank()).load()
    batch = loaded.run(*requests)

    assert loaded.config.batches is model.batches
    row = 0
    for index, inputs in enumerate(requests):
        outputs = batch.arrays_of(index)
        assert outputs.keys() == expected.keys()
        end = row + len(next(iter(inputs.values())))
        for key, array in expected.items():
            wanted = array[row:end] if model.batches else array
            assert outputs[key].dtype == wanted.dtype
            assert outputs[key].tobytes() == wanted.tobytes()
        row = end
