"""The parameters of a model's configuration and the settings of the backend, as values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.parameters import boolean_of, integer_of

_ONLY_VERSION = "2"


@dataclass(frozen=True, slots=True)
class Settings:
    """Threads of 0 leave their number to TensorFlow; `signature` is empty where the configuration names none."""

    intra_op_threads: int = 0
    inter_op_threads: int = 0
    own_threads: bool = False
    tag: str = "serve"
    signature: str = ""
    init_ops_file: str = ""
    instances_per_session: int = 1


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """What `--backend-config=tensorflow,…` says. A memory fraction of 0 lets TensorFlow take memory as it needs it."""

    soft_placement: bool = True
    gpu_memory_fraction: float = 0.0


def read_settings(parameters: Mapping[str, str], model: str) -> Settings:
    """Raises InvalidArgumentError for a value that is malformed."""
    return Settings(
        intra_op_threads=_threads(parameters, "TF_NUM_INTRA_THREADS", model),
        inter_op_threads=_threads(parameters, "TF_NUM_INTER_THREADS", model),
        own_threads=boolean_of(parameters, "TF_USE_PER_SESSION_THREADS", default=False),
        tag=parameters.get("TF_GRAPH_TAG", "serve"),
        signature=parameters.get("TF_SIGNATURE_DEF", ""),
        init_ops_file=parameters.get("TF_INIT_OPS_FILE", ""),
        instances_per_session=_share_count(parameters, model),
    )


def read_backend_settings(settings: Mapping[str, str]) -> BackendSettings:
    """Raises InvalidArgumentError for a value that is malformed, or for TensorFlow 1."""
    if settings.get("version", _ONLY_VERSION) != _ONLY_VERSION:
        raise InvalidArgumentError(
            f"--backend-config=tensorflow,version={settings['version']}: only version {_ONLY_VERSION} can be had"
        )
    text = settings.get("gpu-memory-fraction", "0")
    try:
        fraction = float(text)
    except ValueError as error:
        raise InvalidArgumentError(f"failed to convert '{text}' to floating-point number") from error
    return BackendSettings(boolean_of(settings, "allow-soft-placement", default=True), fraction)


def read_init_ops(files: ModelFiles, name: str) -> tuple[str, ...]:
    """
    The operations to run once a model is loaded, from file `name` in the version's folder, else in the model's.

    Raises InvalidArgumentError where there is no such file or it is not `{"init_ops": ["<operation>", ...]}`.
    """
    path = next((path for path in _places(files, name) if path.is_file()), None)
    if path is None:
        raise InvalidArgumentError(f"unable to find '{name}' for TensorFlow model '{files.name}'")
    try:
        operations = json.loads(path.read_bytes())["init_ops"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(f"'{path}' must be JSON with a list 'init_ops'") from error
    if not isinstance(operations, list) or not all(isinstance(operation, str) for operation in operations):
        raise InvalidArgumentError(f"'init_ops' in '{path}' must be a list of names")
    return tuple(operations)


def _places(files: ModelFiles, name: str) -> tuple[Path, Path]:
    return files.version_directory / name, files.directory / name


def _threads(parameters: Mapping[str, str], name: str, model: str) -> int:
    count = integer_of(parameters, name, 0)
    if count < 0:
        raise InvalidArgumentError(f"parameter '{name}' must be non-negative number for TensorFlow model '{model}'")
    return count


def _share_count(parameters: Mapping[str, str], model: str) -> int:
    count = integer_of(parameters, "MAX_SESSION_SHARE_COUNT", 1)
    if count <= 0:
        raise InvalidArgumentError(
            f"parameter 'MAX_SESSION_SHARE_COUNT' must be positive number for TensorFlow model '{model}'"
        )
    return count
