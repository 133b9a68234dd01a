"""The treelite package: imported when the first model asks, files → models, errors translated."""

from pathlib import Path
from typing import Any

from charonia_runtime.backends.fil.settings import Settings
from charonia_runtime.core.errors import InternalError, UnavailableError
from charonia_runtime.installation import install_command

_JSON = b"{"


def import_library() -> Any:
    """The `treelite` module. Raises UnavailableError that names what to install."""
    try:
        import treelite
    except (ImportError, OSError) as error:
        raise UnavailableError(
            f"the fil backend needs the treelite package: {install_command('fil')} ({error})"
        ) from error
    return treelite


def load_trees(treelite: Any, path: Path, settings: Settings, model: str) -> Any:
    """A `treelite.Model`. Raises InternalError with treelite's text when the file cannot be read."""
    try:
        match settings.model_type:
            case "lightgbm":
                return treelite.frontend.load_lightgbm_model(path)
            case "treelite_checkpoint":
                return treelite.Model.deserialize(path)
            case "xgboost" if not _is_json(path):
                return treelite.frontend.load_xgboost_model_legacy_binary(path)
            case _:
                return treelite.frontend.load_xgboost_model(
                    path, format_choice="inspect", allow_unknown_field=settings.allow_unknown_field
                )
    except Exception as error:
        raise InternalError(f"failed to load model '{model}': {error}") from error


def _is_json(path: Path) -> bool:
    """Whether XGBoost wrote its newer formats, JSON or UBJSON, under the name of the old binary one."""
    with path.open("rb") as file:
        return file.read(1) == _JSON
