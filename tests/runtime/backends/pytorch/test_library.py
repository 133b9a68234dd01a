"""What the backend tells the torch package, and what it says without it."""

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.backends.pytorch import library
from charonia_runtime.backends.pytorch.library import set_up_process
from charonia_runtime.backends.pytorch.settings import Settings
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.installation import install_command


class FakeTorch:
    """Records what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.backends = SimpleNamespace(cudnn=SimpleNamespace(enabled=True))
        self._C = SimpleNamespace(_jit_set_profiling_mode=lambda value: self.told.append(("profiling", value)))

    def get_num_threads(self) -> int:
        return 64

    def set_num_threads(self, count: int) -> None:
        self.told.append(("intra", count))

    def set_num_interop_threads(self, count: int) -> None:
        raise RuntimeError("cannot set number of interop threads after parallel work has started")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTorch]:
    monkeypatch.setattr(library, "_chosen_by", {})
    monkeypatch.setattr(library, "default_thread_count", lambda: 0)
    return FakeTorch()


def test_without_the_package_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnavailableError, match=re.escape(install_command("pytorch"))):
        load_backend("pytorch")(ModelFiles("m", 1, tmp_path, tmp_path / "1"))


@pytest.mark.parametrize("files", [("libtorch_cuda.so",), ("libtorch_cpu.so",)])
def test_a_build_for_cuda_is_known_by_its_files(
    files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    for name in files:
        (tmp_path / "lib" / name).touch()
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    assert library.has_cuda_build() is ("libtorch_cuda.so" in files)


def test_nothing_is_imported_before_a_model_asks() -> None:
    program = (
        "import sys; from charonia_runtime.backends import load_backend; "
        "[load_backend(name) for name in ('pytorch', 'openvino', 'fil')]; "
        "sys.exit(len({'torch', 'openvino', 'treelite'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_nothing_is_said_unless_a_model_says_it(torch: FakeTorch) -> None:
    set_up_process(torch, Settings(), "m")
    assert torch.told == []
    assert torch.backends.cudnn.enabled


def test_a_container_s_limit_bounds_the_threads(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "default_thread_count", lambda: 2)
    set_up_process(torch, Settings(), "m")
    assert torch.told == [("intra", 2)]


def test_switches_of_the_process(torch: FakeTorch) -> None:
    set_up_process(torch, Settings(cudnn=False, intra_op_threads=3, jit_switches={"ENABLE_JIT_PROFILING": False}), "m")
    assert torch.told == [("intra", 3), ("profiling", False)]
    assert not torch.backends.cudnn.enabled


def test_the_first_model_decides(torch: FakeTorch, caplog: pytest.LogCaptureFixture) -> None:
    set_up_process(torch, Settings(intra_op_threads=3), "first")
    with caplog.at_level(logging.WARNING):
        set_up_process(torch, Settings(intra_op_threads=5), "second")
    assert torch.told == [("intra", 3)]
    assert "'second' is ignored" in caplog.text


def test_what_comes_too_late_is_warned_of(torch: FakeTorch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        set_up_process(torch, Settings(inter_op_threads=2), "m")
    assert "comes too late" in caplog.text


def test_switches_that_the_package_does_not_have_are_warned_of(
    torch: FakeTorch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        set_up_process(torch, Settings(jit_switches={"ENABLE_TENSOR_FUSER": True}), "m")
    assert "'ENABLE_TENSOR_FUSER'" in caplog.text
