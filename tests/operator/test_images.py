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


def with_arguments(text, path):
    """The text with the default values of the file's arguments."""
    for name, value in instructions(path):
        if name == "ARG":
            argument, _, default = value.partition("=")
            text = text.replace(f"${{{argument}}}", default)
    return text if "${" not in text else with_arguments(text, path)


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
                image, *rest = with_arguments(value, path).split()
                assert image in stages or re.search(r":[0-9]+\.[0-9]", image), f"{image} has no version"
                stages.update(rest[1:])
            if name == "RUN" and "pip install" in value:
                for command in value.split("&&"):
                    pinned = ("-c constraints.txt", "--require-hashes", "--no-deps")
                    assert "pip install" not in command or any(flag in command for flag in pinned)

    def test_dependencies_are_a_layer_below_the_sources(self, path):
        lines = [" ".join(each) for each in instructions(path)]
        first_install = next(at for at, line in enumerate(lines) if "pip install" in line)
        first_source = next(at for at, line in enumerate(lines) if line.startswith("COPY runtime "))

        assert first_install < first_source

    def test_what_is_copied_is_not_ignored(self, path):
        kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
        copied = [value.split()[:-1] for name, value in instructions(path) if name == "COPY" and "--from" not in value]

        assert {each.partition("/")[0] for sources in copied for each in sources} <= kept


def test_the_commands_are_the_packages():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    assert {"charonia", "tritonserver", "charonia-operator"} <= scripts.keys()
    assert 'CMD ["tritonserver"' in FILES[0].read_text()
    assert 'ENTRYPOINT ["charonia-operator"]' in FILES[1].read_text()


def test_the_servers_image_has_what_the_readme_installs():
    (told,) = re.findall(r"pip install -c constraints.txt '.\[([a-z,]+)\]' &&", (ROOT / "README.md").read_text())
    (cpu, gpu) = (
        value.removeprefix("EXTRAS=") for name, value in instructions(FILES[0]) if value.startswith("EXTRAS=")
    )

    assert {told} | {"gcs", "azure"} == set(cpu.split(","))
    assert {"gpu", "gcs", "azure"} == set(gpu.split(","))


def test_the_server_is_where_nvidias_image_has_it():
    text = FILES[0].read_text()

    assert "ln -s /opt/charonia/bin/tritonserver /opt/tritonserver/bin/tritonserver" in text


def test_the_servers_user_may_install_packages():
    """As start scripts of NVIDIA's image do: the environment is the user's own."""
    copies = [value for name, value in instructions(FILES[0]) if name == "COPY" and value.endswith(" /opt/charonia")]

    assert len(copies) == 2
    assert all("--chown=1000:1000" in copy for copy in copies)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_tags_that_are_told(path):
    assert f":{__version__}" in path.read_text()
