"""`SHA256SUMS` lists: what a repository's owner says of its files, as `sha256sum` prints it."""

import re
from collections.abc import Mapping

from charonia_runtime.storage.failures import IntegrityError
from charonia_runtime.storage.manifest import Manifest

_LINE = re.compile(r"\\?([0-9a-fA-F]{64})(?: [ *]|\t)(.+)")


def parse_sums(text: str, name: str) -> dict[str, str]:
    """Key → SHA-256 in lower case. Raises IntegrityError for a line that is none."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise IntegrityError(f"'{name}', line {number}: expected '<SHA-256>  <file>'")
        found[match[2].removeprefix("./")] = match[1].lower()
    return found


def check_sums(manifest: Manifest, sums: Mapping[str, str], name: str) -> None:
    """Raises IntegrityError unless the list names every file but itself, and each one has its sum."""
    for key in sums:
        if key not in manifest.files:
            raise IntegrityError(f"'{name}' names '{key}', which is not in the repository")
    for key, file in manifest.files.items():
        if key == name:
            continue
        if key not in sums:
            raise IntegrityError(f"'{key}' is not named in '{name}'")
        if file.sha256 != sums[key]:
            raise IntegrityError(f"'{key}' is corrupted: its SHA-256 is {file.sha256}, '{name}' says {sums[key]}")
