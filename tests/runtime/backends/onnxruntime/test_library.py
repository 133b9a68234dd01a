"""The library itself: errors, threads, and that nothing imports it before a model asks."""

import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

from charonia_runtime.backends.onnxruntime.library import (
    translate,
    translated_errors,
)
from charonia_runtime.core.errors import InternalError, NotFoundError
from tests.support import onnx_models

GLOBAL_POOL = """
import sys
from pathlib import Path
import numpy as np
from tests.support.onnx_loading import Loaded, blank
settings = {"enable-global-threadpool": "true", "intra_op_thread_count": "2"}
for name in ("one", "other"):
    loaded = Loaded(Path(sys.argv[1], name), Path(sys.argv[1], "model.onnx").read_bytes(), blank(), **settings).load()
    assert not loaded.instance._session.get_session_options().use_per_session_threads
    sent = np.ones((1, 4), np.float32)
    print(loaded.run({"A": sent, "B": sent}).arrays_of(0)["SUM"].tolist())
"""


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (RuntimeError("[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : bad\nfile"), "onnx runtime error 7: bad\nfile"),
        (ValueError("something of its Python part"), "onnx runtime error 1: something of its Python part"),
        (KeyError(), "onnx runtime error 1: KeyError"),
    ],
)
def test_errors_carry_the_library_s_code(raised: Exception, text: str) -> None:
    assert translate(raised).message == text
    with pytest.raises(InternalError) as caught, translated_errors():
        raise raised
    assert caught.value.__cause__ is raised


def test_our_own_errors_stay_as_they_are() -> None:
    with pytest.raises(NotFoundError), translated_errors():
        raise NotFoundError("gone")


def test_nothing_is_imported_before_a_model_asks() -> None:
    program = (
        "import sys; from charonia_runtime.backends import load_backend; load_backend('onnxruntime'); "
        "sys.exit('onnxruntime' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.skipif(
    not hasattr(onnxruntime, "set_global_thread_pool_sizes"), reason="this onnxruntime has no global thread pool"
)
def test_all_models_may_share_one_pool(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.addition())
    done = subprocess.run(
        [sys.executable, "-c", GLOBAL_POOL, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["[[2.0, 2.0, 2.0, 2.0]]"] * 2
