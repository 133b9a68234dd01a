"""What can be said of the images without building them."""

import re
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

from charonia_operator import __version__

ROOT = Path(__file__).resolve().parents[2]
FILES = [ROOT / "Dockerfile.runtime", ROOT / "Dockerfile.operator"]


def instructions(path):
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
class TestImages:
    def test_they_run_as_nobody_special(self, path):
        users = [value for name, value in instructions(path) if name == "USER"]

        assert users == ["1000:1000"]

    def test_a_linter_finds_nothing(self, path):
        linter = Path(sysconfig.get_path("scripts"), "hadolint")
        found = subprocess.run([linter, "--no-color", path], capture_output=True, text=True, check=False)

        assert (found.returncode, found.stdout) == (0, "")

    def test_versions_are_pinned(self, path):
        stages = set()
        for name, value in instructions(path):
            if name == "FROM":
                image, *rest = value.split()
                assert image in stages or re.search(r":[0-9]+\.[0-9]", image), f"{image} has no version"
                stages.update(rest[1:])
            if name == "RUN" and "pip install" in value:
                for command in value.split("&&"):
                    assert "pip install" not in command or "-c constraints.txt" in command or "--no-deps" in command

    def test_dependencies_are_a_layer_below_the_sources(self, path):
        lines = [" ".join(each) for each in instructions(path)]
        first_install = next(at for at, line in enumerate(lines) if "pip install" in line)
        first_source = next(at for at, line in enumerate(lines) if line.startswith("COPY runtime"))

        assert first_install < first_source

    def test_what_is_copied_is_not_ignored(self, path):
        kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
        copied = [value.split()[:-1] for name, value in instructions(path) if name == "COPY" and "--from" not in value]

        assert {each for sources in copied for each in sources} <= kept


def test_the_commands_are_the_packages():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    assert {"charonia", "tritonserver", "charonia-operator"} <= scripts.keys()
    assert 'CMD ["tritonserver"' in FILES[0].read_text()
    assert 'ENTRYPOINT ["charonia-operator"]' in FILES[1].read_text()


def test_the_servers_image_is_what_the_readme_installs():
    (told,) = re.findall(r"pip install (-c constraints.txt '.\[runtime\]')", (ROOT / "README.md").read_text())

    assert f"RUN /opt/charonia/bin/pip install {told}\n" in FILES[0].read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_tags_that_are_told(path):
    assert f":{__version__}" in path.read_text()
