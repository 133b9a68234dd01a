"""
Advice for those whose repository, model or version cannot be loaded, told from what lies in its folder.

Every function blocks on the file system and never raises; it is asked only when something has failed, and at the start.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.platforms import ENSEMBLE, known_filenames, likely_model_file
from charonia_runtime.core.scheduling import Ensemble
from charonia_runtime.engine.lifecycle.repository import CONFIG_FILENAME, RepositoryEntry
from charonia_runtime.file_kinds import recognise

_MOST_NAMES = 8
_RUN_AS_CODE = frozenset({"python", "dali"})
_NUMBER = re.compile(r"\d+")


def advise_on_repository(repository: Path) -> list[str]:
    """What looks wrong with a repository although it can be read: it is empty, it is a model, it holds loose files."""
    children = _children(repository)
    if _is_model(repository, children):
        return [f"'{repository}' is the folder of a model, not a model repository: give the folder above it"]
    advice: list[str] = []
    if repository.is_dir() and not any(children.values()):
        advice.append(
            f"model repository '{repository}' has no models: each is a folder with a folder for each version, such as "
            f"'{repository}/NAME/1/model.onnx'"
        )
    for name, is_folder in children.items():
        likely = None if is_folder else likely_model_file(name)
        if likely is not None:
            place = repository / name.partition(".")[0] / "1" / likely[1]
            advice.append(f"'{repository / name}' is not served: move it to '{place}'")
    return advice


def advise_on_model(entry: RepositoryEntry) -> str:
    """The likely reason why a model has no version, or nothing that tells its backend; else what lies there."""
    children = _children(entry.directory)
    parent = entry.directory.parent
    if _is_model(parent, _children(parent)):
        return f"'{parent}' is the folder of a model, not a model repository: give the folder above it"
    versions = [str(version) for version in entry.versions]
    for name, is_folder in children.items():
        if is_folder and CONFIG_FILENAME not in children and (entry.directory / name / CONFIG_FILENAME).is_file():
            return f"Move '{entry.directory / name / CONFIG_FILENAME}' to '{entry.directory}'"
    if not versions:
        return _advise_on_missing_version(entry.directory, children)
    folder = entry.version_directory(entry.versions[0])
    found = _children(folder)
    return _misnamed(folder, found) or _unloadable(folder, found, "") or _unknown(folder, found)


def advise_on_no_version(entry: RepositoryEntry) -> str:
    """The reason why a model has no version to serve: there is none, or its policy selects none of those that are."""
    if entry.versions:
        return f"'{entry.directory}' has the versions {', '.join(map(str, entry.versions))}"
    return advise_on_model(entry)


def advise_on_version(folder: Path, config: ModelConfig) -> str:
    """The likely reason why a version cannot be loaded; empty where its files do not tell."""
    if isinstance(config.scheduling, Ensemble) or config.platform == ENSEMBLE:
        return ""
    children, expected = _children(folder), config.default_model_filename
    if expected and expected not in children:
        if not children:
            return f"'{folder}' is empty: put '{expected}' there"
        named = _misnamed(folder, children, config.backend)
        return named or _unloadable(folder, children, config.backend) or f"'{folder}' holds {_listed(children)}"
    if config.backend in _RUN_AS_CODE or config.runtime:
        return ""
    chosen = {expected: children[expected]} if expected else children
    return _unloadable(folder, chosen, config.backend)


def _advise_on_missing_version(folder: Path, children: Mapping[str, bool]) -> str:
    for name, is_folder in children.items():
        likely = likely_model_file(name)
        if likely is not None and likely[1] == name:
            return f"Move '{folder / name}' to the folder of a version: '{folder / '1' / name}'"
        number = _NUMBER.search(name)
        if is_folder and number is not None:
            return f"Rename '{folder / name}' to '{int(number.group())}'"
    return f"A model needs a folder for each version, such as '{folder / '1'}'; that of an ensemble may be empty"


def _is_model(folder: Path, children: Mapping[str, bool]) -> bool:
    """Whether a folder is a model's own: with a configuration, or with nothing but numbers and model files in them."""
    if CONFIG_FILENAME in children and not children[CONFIG_FILENAME]:
        return True
    folders = [name for name, is_folder in children.items() if is_folder]
    return bool(folders) and all(
        name.isdecimal() and any(known in _children(folder / name) for known in known_filenames()) for name in folders
    )


def _misnamed(folder: Path, children: Mapping[str, bool], backend: str = "") -> str:
    for name in children:
        likely = likely_model_file(name)
        if likely is not None and likely[1] != name and backend in {"", likely[0]}:
            field = f'default_model_filename: "{name}"' if backend else f'backend: "{likely[0]}" and the like'
            return f"'{folder}' holds '{name}': rename it to '{likely[1]}', or say in {CONFIG_FILENAME} {field}"
    return ""


def _unloadable(folder: Path, children: Mapping[str, bool], backend: str) -> str:
    files = (folder / name for name, is_folder in children.items() if not is_folder)
    return next((str(found) for path in files if (found := recognise(path, backend))), "")


def _unknown(folder: Path, children: Mapping[str, bool]) -> str:
    return (
        f"'{folder}' {'holds ' + _listed(children) if children else 'is empty'}, none of the files that tell a backend "
        f'({", ".join(known_filenames())}): rename the model\'s file, or say in {CONFIG_FILENAME} backend: "…"'
    )


def _listed(children: Mapping[str, bool]) -> str:
    names = sorted(children)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(f"'{name}'" for name in names[:_MOST_NAMES]) + more


def _children(folder: Path) -> dict[str, bool]:
    """Names in a folder → whether they are folders; hidden ones are left out, and all of those that cannot be read."""
    try:
        with os.scandir(folder) as entries:
            found = {entry.name: entry.is_dir() for entry in entries if not entry.name.startswith((".", "__"))}
    except OSError:
        return {}
    return dict(sorted(found.items()))
