"""DALI pipelines: completed, built, run. They run on processors; those for GPUs need one."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.frameworks import is_installed

if not is_installed("nvidia.dali"):
    pytest.skip("the package nvidia-dali is not installed", allow_module_level=True)

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import (
    InferenceError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)
from charonia_runtime.installation import install_command
from tests.support.configs import a_tensor
from tests.support.dali_models import Loaded, dali, dali_config, fn, save, source

FP32 = DataType.FP32
WRITTEN = """
from nvidia import dali
from nvidia.dali import fn
from nvidia.dali.plugin.triton import autoserialize
import factors

@autoserialize
@dali.pipeline_def(batch_size=4, num_threads=1, device_id=None, output_dtype=dali.types.FLOAT, output_ndim=1)
def pipeline():
    return fn.external_source(name="IN", device="cpu", dtype=dali.types.FLOAT, ndim=1) * factors.FACTOR
"""


def row(*values: float) -> np.ndarray[Any, Any]:
    return np.array([values], np.float32)


def test_a_pipeline_without_a_configuration(tmp_path: Path) -> None:
    save(
        tmp_path,
        lambda: source("IN", FP32, 1) * np.float32(2),
        output_dtype=dali.types.FLOAT,
        output_ndim=1,
        batch_size=32,
    )
    loaded = Loaded(tmp_path, dali_config()).load()
    assert loaded.config.max_batch_size == 32
    assert loaded.config.inputs == (a_tensor("IN", FP32, -1, allow_ragged=True),)
    (output,) = loaded.config.outputs
    assert (output.datatype, output.dims) == (FP32, (-1,))
    # Rows of different lengths run together.
    batch = loaded.run({"IN": row(1, 2, 3)}, {"IN": np.array([[4], [5]], np.float32)})
    assert [batch.arrays_of(index)[output.name].tolist() for index in range(2)] == [[[2, 4, 6]], [[8], [10]]]


def test_outputs_are_those_of_their_positions(tmp_path: Path) -> None:
    save(tmp_path, lambda: (source("A", FP32, 1), fn.reductions.sum(source("B", FP32, 1), axes=0)))
    config = dali_config(
        max_batch_size=4,
        inputs=(a_tensor("B", FP32, -1), a_tensor("A", FP32, -1)),
        outputs=(a_tensor("FIRST", FP32, -1), a_tensor("SUM", FP32, 1)),
    )
    answer = Loaded(tmp_path, config).load().run({"A": row(1, 2), "B": row(3, 4)}).arrays_of(0)
    assert {name: array.tolist() for name, array in answer.items()} == {"FIRST": [[1, 2]], "SUM": [[7]]}


def test_pictures(tmp_path: Path) -> None:
    """What DALI is for: decode, resize, normalise."""

    def build() -> Any:
        picture = fn.decoders.image(source("PICTURE", DataType.UINT8, 1), device="cpu")
        sized = fn.resize(picture, size=[4, 6])
        return fn.crop_mirror_normalize(sized, dtype=dali.types.FLOAT, output_layout="CHW", mean=[10.0], std=[2.0])

    save(tmp_path, build, output_dtype=dali.types.FLOAT, output_ndim=3)
    header = b"P6 3 2 255\n"
    picture = np.frombuffer(header + bytes([30] * 18), np.uint8).reshape(1, -1)
    loaded = Loaded(tmp_path, dali_config()).load()
    answer = loaded.run({"PICTURE": picture}, {"PICTURE": picture}).arrays_of(1)[loaded.config.outputs[0].name]
    assert answer.shape == (1, 3, 4, 6)
    np.testing.assert_allclose(answer, 10)


def test_one_request_is_the_batch_where_there_are_none(tmp_path: Path) -> None:
    save(tmp_path, lambda: source("IN", FP32, 1) * np.float32(2), output_dtype=dali.types.FLOAT, output_ndim=1)
    (tmp_path / "config.pbtxt").write_text("max_batch_size: 0\n")
    loaded = Loaded(tmp_path, dali_config()).load()
    assert (loaded.config.max_batch_size, loaded.config.inputs) == (0, (a_tensor("IN", FP32, -1, -1),))
    answer = loaded.run({"IN": np.ones((3, 2), np.float32)}).arrays_of(0)
    assert answer[loaded.config.outputs[0].name].tolist() == [[2, 2]] * 3


def test_samples_that_become_rows(tmp_path: Path) -> None:
    save(tmp_path, lambda: fn.reshape(source("IN", FP32, 1), shape=[-1, 2]))
    config = dali_config(
        max_batch_size=4,
        inputs=(a_tensor("IN", FP32, -1, allow_ragged=True),),
        outputs=(a_tensor("PAIRS", FP32, 2),),
        parameters={"split_along_outer_axis": "PAIRS", "num_threads": "2"},
    )
    batch = Loaded(tmp_path, config).load().run({"IN": row(1, 2, 3, 4)}, {"IN": row(5, 6)})
    assert [batch.arrays_of(index)["PAIRS"].tolist() for index in range(2)] == [[[1, 2], [3, 4]], [[5, 6]]]


def error_of(loaded: Loaded, **arrays: Any) -> InferenceError:
    (response,) = loaded.run(arrays).responses_to(0)
    assert response.error is not None
    return response.error


def test_a_failure_does_not_end_the_model(tmp_path: Path) -> None:
    save(tmp_path, lambda: fn.reshape(source("IN", FP32, 1), shape=[3]))
    config = dali_config(max_batch_size=4, inputs=(a_tensor("IN", FP32, -1),), outputs=(a_tensor("OUT", FP32, 3),))
    loaded = Loaded(tmp_path, config).load()
    failed = error_of(loaded, IN=row(1, 2))
    assert isinstance(failed, UnknownError)
    assert failed.message.startswith("DALI error: ")
    assert "shape" in failed.message
    assert __file__ not in failed.message
    assert "no longer valid" not in failed.message
    assert loaded.run({"IN": row(1, 2, 3)}).arrays_of(0)["OUT"].tolist() == [[1, 2, 3]]


def test_outputs_that_are_not_as_configured(tmp_path: Path) -> None:
    save(tmp_path, lambda: fn.cast(source("IN", FP32, 1), dtype=dali.types.INT32))
    config = dali_config(max_batch_size=4, inputs=(a_tensor("IN", FP32, -1),), outputs=(a_tensor("OUT", FP32, -1),))
    failed = error_of(Loaded(tmp_path, config).load(), IN=row(1))
    assert isinstance(failed, InternalError)
    assert failed.message == "output 'OUT' is of TYPE_INT32, the configuration says TYPE_FP32"


def test_samples_of_one_request_must_have_one_shape(tmp_path: Path) -> None:
    save(tmp_path, lambda: fn.slice(source("IN", FP32, 1), start=source("FROM", DataType.INT32, 1), end=[3], axes=[0]))
    config = dali_config(
        max_batch_size=4,
        inputs=(a_tensor("IN", FP32, -1), a_tensor("FROM", DataType.INT32, 1)),
        outputs=(a_tensor("OUT", FP32, -1),),
    )
    loaded = Loaded(tmp_path, config).load()
    rows = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    failed = error_of(loaded, IN=rows, FROM=np.array([[0], [1]], np.int32))
    assert failed.message == "the samples of output 'OUT' of one request must have one shape"
    apart = loaded.run(*({"IN": rows[i : i + 1], "FROM": np.array([[i]], np.int32)} for i in range(2)))
    assert [apart.arrays_of(index)["OUT"].tolist() for index in range(2)] == [[[1, 2, 3]], [[5, 6]]]


@pytest.mark.parametrize("filename", ["", "written.py"])
def test_a_pipeline_in_python(filename: str, tmp_path: Path) -> None:
    version = tmp_path / "1"
    version.mkdir()
    (version / (filename or "dali.py")).write_text(WRITTEN)
    (version / "factors.py").write_text("FACTOR = 3")
    loaded = Loaded(tmp_path, dali_config(default_model_filename=filename)).load()
    assert loaded.config.max_batch_size == 4
    assert loaded.run({"IN": row(1, 2)}).arrays_of(0)[loaded.config.outputs[0].name].tolist() == [[3, 6]]


@pytest.mark.parametrize(
    ("code", "cause"), [("", "exactly one pipeline of"), (WRITTEN, "No module named 'factors'"), ("1 / 0", "ZeroDivisionError")]
)  # fmt: skip
def test_python_that_makes_no_pipeline(code: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "dali.py").write_text(code)
    with pytest.raises(UnavailableError) as caught:
        Loaded(tmp_path, dali_config())
    assert caught.value.message.startswith(
        f"Failed to load model file. The program looked in the following locations: {tmp_path}/1/model.dali, "
        f"{tmp_path}/1/dali.py. Please make sure that the model exists"
    )
    assert cause in caught.value.message


def test_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    with pytest.raises(UnavailableError, match=r"^Failed to load model file\."):
        Loaded(tmp_path, dali_config())


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.dali").write_bytes(b"no pipeline")
    with pytest.raises(InvalidArgumentError, match=r"^not a serialized DALI pipeline$"):
        Loaded(tmp_path, dali_config())


def test_many_answers_to_a_request_are_refused(tmp_path: Path) -> None:
    save(tmp_path, lambda: source("IN", FP32, 1))
    config = dali_config(
        max_batch_size=1, inputs=(a_tensor("IN", FP32, -1),), outputs=(a_tensor("OUT", FP32, -1),), decoupled=True
    )
    with pytest.raises(UnsupportedError, match="answers each request once"):
        Loaded(tmp_path, config).load()


def test_the_backend_s_settings(tmp_path: Path) -> None:
    save(tmp_path, lambda: source("IN", FP32, 1), output_dtype=dali.types.FLOAT, output_ndim=1)
    Loaded(tmp_path, dali_config(), release_after_unload="true").load().backend.close()
    with pytest.raises(UnknownError, match=r"^DALI error: .*nowhere\.so"):
        Loaded(tmp_path, dali_config(), plugin_libs="/nowhere.so")


def test_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvidia", None)
    with pytest.raises(UnavailableError, match=re.escape(install_command("dali"))):
        load_backend("dali")(ModelFiles("m", 1, tmp_path, tmp_path / "1"))
