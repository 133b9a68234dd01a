"""The command that installs an extra of this package: one that works for the way the package was installed itself."""

import json
import re
import shlex
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NAME = "charonia"
_ROOT = Path(__file__).resolve().parents[2]
_REQUIREMENT = re.compile(r"(?P<requirement>[^;]+?)\s*;.*extra == ['\"](?P<extra>[\w-]+)['\"]")


def install_command(extra: str, root: Path = _ROOT) -> str:
    """
    `pip install …` for an extra, as a shell takes it.

    From the checkout that this package runs from (`root`) or was installed from; from the index or address where it
    came from; else, as in an image without its sources, the packages of the extra by their own names.
    """
    if _is_checkout(root):
        return _from_checkout(root, extra)
    try:
        installed = distribution(_NAME)
    except PackageNotFoundError:
        return f"pip install {shlex.quote(f'{_NAME}[{extra}]')}"
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    url = str(origin.get("url", ""))
    if not url:
        return f"pip install {shlex.quote(f'{_NAME}[{extra}]')}"
    if not url.startswith("file:"):
        vcs = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
        return f"pip install {shlex.quote(f'{_NAME}[{extra}] @ {vcs}{url}')}"
    source = Path(unquote(urlsplit(url).path))
    if _is_checkout(source):
        return _from_checkout(source, extra)
    return f"pip install {shlex.join(_requirements(installed, extra))}"


def _is_checkout(folder: Path) -> bool:
    try:
        return f'name = "{_NAME}"' in (folder / "pyproject.toml").read_text()
    except OSError:
        return False


def _from_checkout(folder: Path, extra: str) -> str:
    constraints = folder / "constraints.txt"
    pinned = f"-c {shlex.quote(str(constraints))} " if constraints.is_file() else ""
    return f"pip install {pinned}{shlex.quote(f'{folder}[{extra}]')}"


def _requirements(installed: Distribution, extra: str) -> list[str]:
    """What an extra needs beyond other extras of ours, as its metadata says."""
    found = (_REQUIREMENT.match(line) for line in installed.requires or ())
    named = [match["requirement"] for match in found if match and match["extra"] == extra]
    return [requirement for requirement in named if not requirement.startswith(_NAME)] or [f"{_NAME}[{extra}]"]
