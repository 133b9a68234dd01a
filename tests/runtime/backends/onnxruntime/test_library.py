"""The library itself: errors, threads, and that nothing imports it before a model asks."""

import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

from charonia_runtime.backends.onnxruntime.library import (
    allowed_cpus,
    default_thread_count,
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


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("1600000 100000", 8),
     ("nonsense", 8)],
)  # fmt: skip
def test_a_container_s_limit_bounds_the_pool(tmp_path: Path, limit: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(limit + "\n")
    assert allowed_cpus(tmp_path / "cpu.max", 8) == cores


def test_without_control_groups_all_cores_count(tmp_path: Path) -> None:
    assert allowed_cpus(tmp_path / "cpu.max", 8) == 8


def test_the_library_chooses_where_nothing_limits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("charonia_runtime.backends.onnxruntime.library._CGROUP_LIMIT", Path("/no/such/file"))
    assert default_thread_count() == 0
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert default_thread_count() == 8


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
