"""The package: found or named, its plans read, its log ours; the stand-in against the package where there is one."""

import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from charonia_runtime.backends import load_backend
from charonia_runtime.backends.tensorrt.library import import_library, log_of
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnavailableError, UnsupportedError
from charonia_runtime.installation import install_command
from tests.support import tensorrt_runtime
from tests.support.tensorrt_models import Loaded
from tests.support.tensorrt_runtime import FakeTensorrt, Severity, a_plan, an_input, an_output

INPUTS, OUTPUTS = [an_input("IN", -1, 4)], [an_output("OUT", -1, 4)]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(UnavailableError, match=re.escape("needs the tensorrt package: " + install_command("tensorrt"))):
        load_backend("tensorrt")(ModelFiles("m", 1, tmp_path, tmp_path / "1"))


def test_missing_bindings_of_cuda_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tensorrt: FakeTensorrt
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(UnavailableError, match=re.escape("cuda-bindings package: " + install_command("tensorrt"))):
        load_backend("tensorrt")(ModelFiles("m", 1, tmp_path, tmp_path / "1"))


def test_an_old_package_is_refused(tensorrt: FakeTensorrt) -> None:
    tensorrt.__version__ = "8.6.1"
    with pytest.raises(UnavailableError, match=r"needs TensorRT 10 or newer, found 8\.6\.1"):
        import_library()


@pytest.mark.parametrize(
    ("plan", "error", "text"),
    [
        (b"", InternalError, "model.plan' is empty"),
        (b"ptrt", InternalError, "unable to create TensorRT engine: magicTag does not match"),
        (a_plan(INPUTS, OUTPUTS, host_code=True), InternalError, "engine: host code is not allowed"),
        (a_plan(INPUTS, OUTPUTS, no_context=True), InternalError, "unable to create TensorRT context: out of memory"),
        (a_plan(INPUTS, OUTPUTS, implicit=True), UnsupportedError,
         "its plan has an implicit batch dimension, which TensorRT no longer runs: build the plan anew"),
    ],
)  # fmt: skip
def test_plans_that_cannot_be_used(
    tmp_path: Path, tensorrt: FakeTensorrt, plan: bytes, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=re.escape(text)):
        Loaded(tmp_path, plan)


def test_version_compatible_plans_where_they_are_allowed(tmp_path: Path, tensorrt: FakeTensorrt) -> None:
    Loaded(tmp_path, a_plan(INPUTS, OUTPUTS, host_code=True), settings={"version-compatible": "true"})
    assert tensorrt.plugins == 1


def test_plugins_are_loaded(tmp_path: Path, tensorrt: FakeTensorrt) -> None:
    Loaded(tmp_path, a_plan(INPUTS, OUTPUTS), settings={"plugins": "libc.so.6;libm.so.6"})
    with pytest.raises(InvalidArgumentError, match="unable to load the TensorRT plugin library '/no/such"):
        Loaded(tmp_path, a_plan(INPUTS, OUTPUTS), settings={"plugins": "/no/such.so"})


def test_its_log_is_ours(tensorrt: FakeTensorrt, caplog: pytest.LogCaptureFixture) -> None:
    log = log_of(tensorrt)
    assert log is log_of(tensorrt)
    with caplog.at_level(logging.DEBUG):
        log.log(Severity.ERROR, "first")
        log.log(Severity.WARNING, "second")
        log.log(Severity.INFO, "third")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "TensorRT: first"), ("WARNING", "TensorRT: second"), ("DEBUG", "TensorRT: third"),
    ]  # fmt: skip
    assert log.last_error == "first"


# --- the stand-in ---


def public(kind: Any) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.fixture
def real() -> Any:
    return pytest.importorskip(
        "tensorrt", reason="the package tensorrt, or a library that it needs, is not installed", exc_type=ImportError
    )


@pytest.mark.parametrize("name", ["ICudaEngine", "IExecutionContext", "Runtime"])
def test_the_stand_in_has_the_package_s_names_and_arguments(real: Any, name: str) -> None:
    own, there = getattr(tensorrt_runtime, name), getattr(real, name)
    for method in public(own) & {name for name in dir(own) if callable(getattr(own, name))}:
        if method == "complain":
            continue
        described = getattr(there, method).__doc__ or ""
        code = getattr(own, method).__code__
        for argument in code.co_varnames[1 : code.co_argcount]:
            assert re.search(rf"\b{argument}\b", described), f"{name}.{method} has no argument {argument}"


@pytest.mark.parametrize(
    "kind", ["TensorIOMode", "TensorLocation", "TensorFormat", "ExecutionContextAllocationStrategy", "DataType"]
)
def test_the_stand_in_has_the_package_s_members(real: Any, kind: str) -> None:
    there = getattr(real, kind)
    assert all(getattr(there, member.name).name == member.name for member in getattr(tensorrt_runtime, kind))
    assert all(hasattr(real.ILogger.Severity, member.name) for member in Severity)


def test_the_package_has_the_rest(real: Any) -> None:
    assert callable(real.init_libnvinfer_plugins)
    log = log_of(real)
    log.log(real.ILogger.Severity.ERROR, "text")
    assert log.last_error == "text"
    assert (
        "reallocate_output_async(self, tensor_name, memory, size, alignment, stream)" in real.IOutputAllocator.__doc__
    )
