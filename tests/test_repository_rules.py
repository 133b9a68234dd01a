"""The rules that every change keeps: lint, formatting, types, import contracts, sizes of modules, the layout."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [*ROOT.glob("runtime/**/*.py"), *ROOT.glob("operator/**/*.py")]
TOP_LEVEL = {
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "operator", "runtime", "crds", "charts",
    "tests", "e2e", "Dockerfile.runtime", "Dockerfile.operator",
}  # fmt: skip


def run(*command: str) -> None:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_lint():
    run(sys.executable, "-m", "ruff", "check", "--no-cache")


def test_formatting():
    run(sys.executable, "-m", "ruff", "format", "--check", "--no-cache")


@pytest.mark.timeout(400)
def test_types():
    run(sys.executable, "-m", "mypy")


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of the tree in `directory`, whatever is installed."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": f"{directory / 'runtime'}{os.pathsep}{directory / 'operator'}"}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def test_import_contracts():
    result = lint_imports(ROOT)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("operator/reconcile.py", "import kubernetes", "Only cluster talks to Kubernetes"),
        ("operator/workers.py", "import kopf", "Only the event source knows kopf"),
        ("core/request.py", "import asyncio", "Core does no I/O and knows no wire"),
        ("core/tensor.py", "import charonia_runtime.replies", "Runtime: imports point down"),
        ("frontends/metrics/frontend.py", "import charonia_runtime.engine", "Runtime: imports point down"),
        ("engine/engine.py", "import charonia_runtime.backends.identity", "Runtime: imports point down"),
        ("backends/identity.py", "import charonia_runtime.backends.onnxruntime", "Plug-ins do not know each other"),
        (
            "frontends/v2_grpc/transports/http2/handler.py",
            "import charonia_runtime.frontends.v2_grpc.transports.grpcio",
            "Transports of gRPC do not know each other",
        ),
        ("engine/schedulers/base.py", "import time", "Schedulers are sans-I/O"),
        ("engine/engine.py", "import fastapi", "Only the HTTP frontend knows FastAPI"),
        ("frontends/metrics/frontend.py", "import uvicorn", "Only HTTP/1 knows uvicorn and httptools"),
        (
            "engine/engine.py",
            "import google.protobuf",
            "Only protocols know protobuf messages, and only its scheme knows Google's cloud",
        ),
        ("core/errors.py", "import charonia_operator", "Runtime and operator meet only at a command line"),
    ],
)
def test_import_contracts_fail_when_broken(tmp_path, module, line, contract):
    for name in ("runtime", "operator"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "examples"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    folder = "operator/charonia_operator" if module.startswith("operator/") else "runtime/charonia_runtime"
    broken = tmp_path / folder / module.removeprefix("operator/")
    broken.write_text(broken.read_text() + f"\n{line}\n")

    result = lint_imports(tmp_path)

    assert result.returncode != 0
    assert f"{contract} BROKEN" in result.stdout


def test_protobuf_and_googles_cloud_have_one_home_each():
    """The import contract cannot tell them apart: both are packages below `google`."""
    homes = {
        "google.protobuf": "protocols",
        "google.cloud": "storage/schemes/gs.py",
        "google.auth": "storage/schemes/gs.py",
    }
    runtime = ROOT / "runtime/charonia_runtime"
    astray = [
        f"{path.relative_to(runtime)}: {package}"
        for path in runtime.rglob("*.py")
        for package, home in homes.items()
        if re.search(rf"^\s*(?:import|from) {re.escape(package)}\b", path.read_text(), re.MULTILINE)
        and not path.relative_to(runtime).is_relative_to(home)
    ]

    assert astray == []


def test_no_module_is_over_the_ceiling():
    too_long = {
        str(path.relative_to(ROOT)): lines for path in SOURCES if (lines := len(path.read_text().splitlines())) > 400
    }

    assert too_long == {}


def test_every_package_has_a_charter():
    without = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.name == "__init__.py" and not path.read_text().startswith('"""')
    ]

    assert without == []


@pytest.mark.parametrize("folder", ["operator", "tests"])
def test_folders_that_must_not_be_packages(folder):
    """`operator/__init__.py` would shadow the standard library; in `tests` equal file names must be allowed."""
    found = list((ROOT / folder).glob("**/__init__.py"))
    if folder == "operator":
        found = [path for path in found if path.parent == ROOT / "operator"]

    assert found == []


def test_the_top_level_is_fixed():
    visible = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")} - {"build", "dist"}

    assert visible <= TOP_LEVEL


def test_every_dependency_of_the_test_extras_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    names = {
        requirement.split(">")[0].split("[")[0].lower().replace("_", "-")
        for extra in (
            "serving",
            "runtime",
            "test",
            "frameworks",
            "pytorch",
            "openvino",
            "fil",
            "tensorflow-cpu",
            "dali",
        )
        for requirement in project["optional-dependencies"][extra]
    }

    assert names - pinned - {"charonia"} == set()
