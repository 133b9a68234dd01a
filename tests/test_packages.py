"""What users install: the wheel, the source distribution, one version for all, and files of hashes for what they need."""

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import charonia_operator
import charonia_runtime

ROOT = Path(__file__).resolve().parent.parent
EXTRAS_OF_LOCKS = {
    "runtime": ("serving", "s3", "oss", "gcs", "azure", "runtime"),
    "gpu": ("serving", "s3", "oss", "gcs", "azure", "gpu"),
    "operator": ("operator",),
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("packages")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, "-t", "wheel", "-t", "sdist")
    return folder


def run(*command):
    result = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def installed(folder, package):
    """A new environment with the package, and below it the dependencies of this one."""
    venv.create(folder)
    python = folder / "bin/python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n{packages_above()}\n")
    offline = ("--no-deps", "--no-index", "--no-build-isolation")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", *offline, package)
    return folder / "bin"


def packages_above():
    """Where the modules of this environment really are, should it borrow them."""
    return Path(pytest.__file__).parent.parent


def names(archive):
    if archive.suffix == ".whl":
        return set(zipfile.ZipFile(archive).namelist())
    with tarfile.open(archive) as found:
        return {name.partition("/")[2] for name in found.getnames()}


def test_the_wheel_holds_every_module(packages):
    (wheel,) = packages.glob("*.whl")
    wanted = {
        str(path.relative_to(ROOT / folder))
        for folder, package in (("runtime", "charonia_runtime"), ("operator", "charonia_operator"))
        for path in (ROOT / folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    held = {name for name in names(wheel) if ".dist-info/" not in name}
    assert held == wanted


def test_the_source_distribution_holds_what_an_installation_needs(packages):
    (sdist,) = packages.glob("*.tar.gz")

    assert {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "runtime/locks/runtime.txt"} <= names(sdist)


def test_what_is_installed_runs(packages, tmp_path):
    """Out of the source distribution: pip makes a wheel of it first."""
    (package,) = packages.glob("*.tar.gz")
    programs = installed(tmp_path / "venv", package)

    where = run(programs / "python", "-c", "import charonia_runtime; print(charonia_runtime.__file__)")
    assert where.startswith(str(tmp_path))
    assert run(programs / "charonia", "--version") == f"charonia {charonia_runtime.__version__}\n"
    assert "--model-repository" in run(programs / "tritonserver", "--help")
    assert charonia_runtime.__version__ in run(programs / "charonia-operator", "--version")
    run(programs / "charonia", "check", "runtime/examples/models")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_clean_environment_with_locked_hashes(packages, tmp_path):
    """What the image of the server installs, in the same order."""
    (wheel,) = packages.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    pip = tmp_path / "venv/bin/pip"

    run(pip, "install", "-q", "--require-hashes", "-r", ROOT / "runtime/locks/runtime.txt")
    run(pip, "install", "-q", "-c", ROOT / "constraints.txt", f"{wheel}[runtime,gcs,azure]")
    run(pip, "check")
    run(tmp_path / "venv/bin/charonia", "check", "runtime/examples/models")


def test_there_is_one_version():
    """The first is the source of the others, but for the texts that no tool fills in."""
    version = charonia_runtime.__version__
    told = {
        path: set(re.findall(r"ghcr\.io/charonia/[a-z]+:([0-9][0-9.]*[0-9])", (ROOT / path).read_text()))
        for path in ("README.md", "Dockerfile.runtime", "Dockerfile.operator")
    }

    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
    assert charonia_operator.__version__ == version, "the installed package is an old one: pip install -e '.[test]'"
    assert re.findall(
        r"^(?:version|appVersion): (.*)$", (ROOT / "charts/charonia/Chart.yaml").read_text(), re.MULTILINE
    ) == [
        version,
        version,
    ]
    assert told == {path: {version} for path in told}


def lock(name):
    """The file of that name: the server's lie in `runtime`, the operator's in `operator`."""
    (found,) = ROOT.glob(f"*/locks/{name}.txt")
    return found


@pytest.mark.parametrize("name", sorted(EXTRAS_OF_LOCKS))
def test_the_locks_hold_what_the_tests_pass_with(name):
    pins = dict(pinned(ROOT / "constraints.txt"))
    locked = dict(pinned(lock(name)))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {
        canonical(re.split(r"[\[<>=!~;]", requirement)[0])
        for extra in EXTRAS_OF_LOCKS[name]
        for requirement in project[extra]
    }

    assert wanted - {"charonia"} <= locked.keys()
    assert {package: pins.get(package, version) for package, version in locked.items()} == locked


@pytest.mark.parametrize("name", sorted(EXTRAS_OF_LOCKS))
def test_every_locked_version_has_hashes(name):
    text = (lock(name)).read_text()
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]

    assert entries
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    assert "://" not in text


def pinned(path):
    """Package and version of each line that has one."""
    for line in path.read_text().splitlines():
        match = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", line)
        if match:
            yield canonical(match[1]), match[2]


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()
