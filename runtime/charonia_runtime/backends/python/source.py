"""The user's `model.py` as text: where it lies, and what would keep it from being imported, without running it."""

import ast
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from charonia_runtime.core.backend import FileFault, ModelFiles
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InternalError, InvalidArgumentError

MODEL_FILE = "model.py"
_CLASS = "TritonPythonModel"
_NAME = "python"
_OWN_BACKENDS = Path(__file__).parents[1]
_RUNTIME_FOLDER = "python_runtime"
_OURS = frozenset({"triton_python_backend_utils", "c_python_backend_utils"})


def locate_code(files: ModelFiles, config: ModelConfig) -> Mapping[str, Any]:
    """The place of a model's code and how it is imported. Raises InternalError when it is not there."""
    if config.runtime == MODEL_FILE and config.backend != _NAME:
        folder = files.backend_directory / config.backend
        if not (folder / MODEL_FILE).is_file():
            folder = _OWN_BACKENDS / config.backend / _RUNTIME_FOLDER
        path, module, search_paths = folder / MODEL_FILE, "model", [folder]
    else:
        filename = config.default_model_filename or MODEL_FILE
        if not filename.endswith(".py"):
            raise InvalidArgumentError(f"model file '{filename}' of a Python model must end in '.py'")
        path = files.version_directory / filename
        module = f"{files.version}.{Path(filename).stem}"
        search_paths = [files.version_directory, files.directory]
    if not path.is_file():
        raise InternalError(f"Python model file not found in '{path}'")
    return {
        "model_name": config.name,
        "model_file": str(path),
        "module_name": module,
        "search_paths": [str(entry) for entry in search_paths],
        "version_directory": str(files.version_directory),
    }


def inspect_source(path: Path, search_paths: Sequence[str] | None) -> Iterator[FileFault]:
    """
    Mistakes of a `model.py`: its syntax, its class, and imports of what is not installed.

    `search_paths` are the folders where it finds modules of its own; None where it runs in an environment that is not
    this one, so that nothing can be said of its imports.
    """
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        yield FileFault(path, f"line {line}: SyntaxError: {getattr(error, 'msg', error)}")
        return
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if not _may_bind(tree.body, _CLASS):
        others = f"; its classes are: {', '.join(classes)}" if classes else ""
        yield FileFault(path, f"it has no class {_CLASS}{others}")
    if search_paths is not None:
        yield from _missing_imports(path, tree.body, search_paths)


def _may_bind(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether top-level statements may give `name` a value: by a class, an import, an assignment, in branches too."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.ClassDef) and node.name == name:
                return True
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return True
            if isinstance(node, ast.alias) and (node.asname or node.name) in {name, "*"}:
                return True
    return False


def _missing_imports(path: Path, statements: Sequence[ast.stmt], search_paths: Sequence[str]) -> Iterator[FileFault]:
    """Imports that every load runs: those of the module's own body, not of functions, branches or `try`."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
            names = [statement.module]
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            if top not in _OURS and not _is_found(top, search_paths):
                yield FileFault(path, f"line {statement.lineno}: No module named '{top}'")


def _is_found(name: str, search_paths: Sequence[str]) -> bool:
    if name in sys.modules:
        return True
    if any(Path(folder, name).is_dir() or Path(folder, f"{name}.py").is_file() for folder in search_paths):
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True  # it is there, in some state
