"""Finds the backend of a model: one that `load_backend` knows, or a Python-based one of the user's."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from charonia_runtime.core.backend import Backend, ModelFiles
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InternalError, InvalidArgumentError, UnsupportedError
from charonia_runtime.engine.lifecycle.repository import is_model_name
from charonia_runtime.protocols.model_config import complete

LoadBackend = Callable[[str], type[Backend]]
"""Finds the class of a backend by name; may import a large library. Raises InvalidArgumentError for unknown names."""

PYTHON_RUNTIME = "model.py"
_PYTHON = "python"


def find_backend(
    config: ModelConfig, files: ModelFiles, backend_directory: Path, load_backend: LoadBackend
) -> tuple[type[Backend], ModelConfig]:
    """
    The backend's class, and the configuration with the runtime that was found. Blocks: call it in an executor.

    A Python-based backend is a `model.py` in `<backend_directory>/<backend>/`, or one that a backend of ours brings;
    our python backend runs it. The operator's comes before one of ours of the same name, unless a shared library or a
    `backend.py` lies beside it: Triton's order (model configuration, "runtime").
    Raises InvalidArgumentError when there is none, UnsupportedError when there is only one of Triton's C API,
    InternalError when its library cannot be imported.
    """
    name = config.backend
    custom = backend_directory / name / PYTHON_RUNTIME if is_model_name(name) else None
    has_custom = custom is not None and custom.is_file()
    if config.runtime == PYTHON_RUNTIME and not has_custom and not _brings_python_runtime(name, load_backend):
        raise InvalidArgumentError(
            f"unable to find Python backend based backend library '{PYTHON_RUNTIME}' for model '{files.name}', "
            f"searched: '{backend_directory / name / PYTHON_RUNTIME}'"
        )
    if config.runtime not in ("", PYTHON_RUNTIME, f"libtriton_{name}.so"):
        _refuse_shared_library(config.runtime, config, files, backend_directory)
        raise _unknown_runtime(config, files, backend_directory)
    replaces_ours = has_custom and not config.runtime and _stands_alone(backend_directory / name)
    if config.runtime != PYTHON_RUNTIME and not replaces_ours:
        try:
            return load_backend(name), config
        except InvalidArgumentError:
            if not has_custom:
                _refuse_shared_library(f"libtriton_{name}.so", config, files, backend_directory)
                raise
        except ImportError as error:
            raise InternalError(f"unable to load backend '{name}': {error}") from error
    return load_backend(_PYTHON), complete(replace(config, runtime=PYTHON_RUNTIME))


def _stands_alone(folder: Path) -> bool:
    """Whether the `model.py` of a backend's folder is the whole backend, and no part of another one."""
    name = folder.name
    return name != _PYTHON and not any((folder / other).is_file() for other in (f"libtriton_{name}.so", "backend.py"))


def _brings_python_runtime(name: str, load_backend: LoadBackend) -> bool:
    try:
        return load_backend(name).traits.python_runtime
    except (InvalidArgumentError, ImportError):
        return False


def _refuse_shared_library(filename: str, config: ModelConfig, files: ModelFiles, backend_directory: Path) -> None:
    """Raises UnsupportedError where Triton would find a backend of its C API: in three folders."""
    name = config.backend
    if Path(filename).name != filename or not is_model_name(name):
        return
    own_folder = backend_directory / name
    for folder in (files.version_directory, files.directory, own_folder):
        if (folder / filename).is_file():
            raise UnsupportedError(
                f"backend '{name}' of model '{files.name}' is a shared library for Triton's C API, "
                f"'{folder / filename}', which needs Triton's own process. Write it in Python, as "
                f"'{own_folder / 'backend.py'}' with a class Backend or as '{own_folder / PYTHON_RUNTIME}' with a "
                "class TritonPythonModel, or serve this model with Triton"
            )


def _unknown_runtime(config: ModelConfig, files: ModelFiles, backend_directory: Path) -> InvalidArgumentError:
    runtime = config.runtime
    if ".." in Path(runtime).parts or Path(runtime).is_absolute():
        return InvalidArgumentError(
            f"backend library name '{runtime}' escapes backend directory '{backend_directory / config.backend}', for "
            f"model '{files.name}', check model config runtime field"
        )
    return InvalidArgumentError(
        f"unable to find backend library '{runtime}' for model '{files.name}', searched: "
        f"'{files.version_directory}' '{files.directory}' '{backend_directory / config.backend}' "
    )
