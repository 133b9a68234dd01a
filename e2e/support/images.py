"""
The images of the Dockerfiles, made without a container engine: the same installation in an environment of this machine,
put into an image's tar with the interpreter and the libraries that it runs on.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from e2e.support.kubectl import run

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "charonia-e2e"
_INSTALL = re.compile(r"pip install -c constraints\.txt ['\"]\.\[([^\]]+)\]['\"]")
_CHOSEN = re.compile(r"^ARG EXTRAS=(\S+)$", re.MULTILINE)
_BYTECODE = "/var/cache/python"
_NOT_THE_LIBRARY = {"__pycache__", "site-packages", "dist-packages", "test", "idlelib", "turtledemo", "ensurepip"}
_PATHS = "import json, sysconfig; print(json.dumps(sysconfig.get_paths()))"


def installed_extra(dockerfile: str) -> str:
    """The extras that the image of a Dockerfile installs by default: of its first target, where it has several."""
    text = (ROOT / dockerfile).read_text()
    found, chosen = _INSTALL.search(text), _CHOSEN.search(text)
    assert found, f"{dockerfile} installs no extra of this package"
    return chosen[1] if chosen and found[1] == "${EXTRAS}" else found[1]


class ImageFolder:
    """Where images are made. What was installed for them is kept for later runs."""

    def __init__(self, builder: Path, programs: Path) -> None:
        self._builder = builder
        self._programs = programs
        self.tars: list[Path] = []

    def runtime(self) -> str:
        """The server's image: its name. The tar is in `tars`."""
        return self._python("runtime", installed_extra("Dockerfile.runtime"))

    def operator(self) -> str:
        """The operator's image."""
        return self._python("operator", installed_extra("Dockerfile.operator"))

    def store(self) -> str:
        """MinIO's image."""
        return self._image("store", ["--program", f"{self._programs / 'minio'}:/usr/bin/minio"], ["minio"])

    def _python(self, role: str, extra: str) -> str:
        environment = Environment(extra)
        environment.install()
        settings = {
            "PATH": f"{environment.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPYCACHEPREFIX": _BYTECODE,
            "HOME": "/tmp",
        }
        options = ["--busybox", "--user", "1000:1000", "--add", f"{environment.bytecode}:{_BYTECODE}"]
        for path in environment.contents():
            options += ["--add", str(path)]
        for name, value in settings.items():
            options += ["--env", f"{name}={value}"]
        return self._image(role, options, ["charonia-operator"] if role == "operator" else [])

    def _image(self, role: str, options: list[str], entrypoint: list[str]) -> str:
        name = f"localhost/charonia/{role}:e2e"
        tar = CACHE / f"{role}.tar"
        command = [sys.executable, self._builder, tar, name, *options]
        run(command + (["--entrypoint", *entrypoint] if entrypoint else []), seconds=400)
        self.tars.append(tar)
        return name


class Environment:
    """A virtual environment with this package and one of its extras, and the bytecode of all that is in it."""

    def __init__(self, extra: str) -> None:
        pins = [(ROOT / name).read_text() for name in ("constraints.txt", "pyproject.toml")]
        key = hashlib.sha256("\0".join([sys.version, *pins]).encode()).hexdigest()[:12]
        self._extra = extra
        self._key = key
        self.folder = CACHE / extra.replace(",", "-")
        self.bytecode = CACHE / f"{self.folder.name}-bytecode"
        self._python = self.folder / "bin/python"

    def install(self) -> None:
        """The dependencies, unless they are there already, and the package as it is now."""
        complete = self.folder / "complete"
        pip = [self._python, "-m", "pip", "install", "--no-compile", "--quiet", "-c", "constraints.txt"]
        requirement = f"{_wheel()}[{self._extra}]"
        if complete.exists() and complete.read_text() == self._key:
            run([*pip, "--no-deps", "--force-reinstall", requirement], folder=ROOT)
            self._compile(*(self._path("purelib") / package for package in ("charonia_runtime", "charonia_operator")))
            return
        for stale in (self.folder, self.bytecode):
            shutil.rmtree(stale, ignore_errors=True)
        run([sys.executable, "-m", "venv", self.folder])
        run([*pip, requirement], folder=ROOT, seconds=600)
        self._compile(*self._library(), self._path("purelib"))
        complete.write_text(self._key)

    def contents(self) -> Iterator[Path]:
        """What the environment needs to run, itself included."""
        yield self.folder
        yield from self._library()

    def _library(self) -> Iterator[Path]:
        for path in sorted(self._path("stdlib").iterdir()):
            if path.name not in _NOT_THE_LIBRARY and not path.name.startswith("config-"):
                yield path

    def _path(self, name: str) -> Path:
        return Path(json.loads(run([self._python, "-c", _PATHS]))[name])

    def _compile(self, *paths: Path) -> None:
        """What cannot be compiled, such as the templates of code generators, stays without bytecode."""
        command = [self._python, "-m", "compileall", "-q", "-f", "-j", "2", "--invalidation-mode", "unchecked-hash"]
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(self.bytecode)}
        subprocess.run([*command, *paths], env=environment, capture_output=True, timeout=400, check=False)


@functools.cache
def _wheel() -> Path:
    """This package, built."""
    folder = CACHE / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet"]
    run([*pip, "--wheel-dir", folder, "."], folder=ROOT, seconds=300)
    return next(folder.glob("*.whl"))
