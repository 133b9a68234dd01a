"""The advice what to install is a command that works where it is printed."""

import json
import re
from importlib import metadata
from pathlib import Path

import pytest

from charonia_runtime import installation
from charonia_runtime.installation import install_command

ROOT = Path(__file__).parents[2]
NOWHERE = Path("/nowhere")


class Installed:
    """An installed distribution, as `importlib.metadata` finds it."""

    requires = ('torch>=2.4; extra == "pytorch"', 'charonia[serving]; extra == "pytorch"', "numpy")

    def __init__(self, origin: dict[str, object] | None) -> None:
        self._origin = origin

    def read_text(self, _name: str) -> str | None:
        return None if self._origin is None else json.dumps(self._origin)


def install_as(monkeypatch: pytest.MonkeyPatch, origin: dict[str, object] | None) -> None:
    monkeypatch.setattr(installation, "distribution", lambda _name: Installed(origin))


def test_from_a_checkout() -> None:
    assert install_command("pytorch") == f"pip install -c {ROOT}/constraints.txt '{ROOT}[pytorch]'"


def test_from_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    install_as(monkeypatch, None)

    assert install_command("pytorch", NOWHERE) == "pip install 'charonia[pytorch]'"


def test_from_a_folder_that_is_still_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "charonia"\n')
    install_as(monkeypatch, {"url": folder.as_uri(), "dir_info": {}})

    assert install_command("pytorch", NOWHERE) == f"pip install '{folder}[pytorch]'"


def test_from_a_folder_that_is_gone_as_in_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    install_as(monkeypatch, {"url": "file:///src", "dir_info": {}})

    assert install_command("pytorch", NOWHERE) == "pip install 'torch>=2.4'"


def test_from_a_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    install_as(monkeypatch, {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "1"}})

    assert install_command("pytorch", NOWHERE) == "pip install 'charonia[pytorch] @ git+https://host/x.git'"


def test_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", missing)

    assert install_command("pytorch", NOWHERE) == "pip install 'charonia[pytorch]'"


def test_no_message_names_an_extra_by_itself() -> None:
    sources = [*(ROOT / "runtime/charonia_runtime").rglob("*.py")]

    found = [path for path in sources if re.search(r"pip install ['\"\\]*charonia\[", path.read_text())]

    assert found == []
