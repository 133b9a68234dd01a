"""The treelite package: imported when the first model asks, files → models, errors translated."""

from pathlib import Path
from typing import Any

from charonia_runtime.backends.fil.settings import Settings
from charonia_runtime.backends.fil.xgboost_categories import without_categories
from charonia_runtime.core.errors import InternalError, UnavailableError
from charonia_runtime.installation import install_command

_JSON = b"{"
_CATEGORIES = "categorical encoder"
"""What treelite's refusal of a table of categories says."""


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
                return _load_xgboost(treelite, path, settings, model)
    except InternalError as error:
        raise error.with_prefix(f"failed to load model '{model}': ") from None
    except Exception as error:
        raise InternalError(f"failed to load model '{model}': {error}") from error


def _load_xgboost(treelite: Any, path: Path, settings: Settings, model: str) -> Any:
    """A model in JSON or UBJSON. Raises InternalError for categories in UBJSON, and treelite's errors."""
    unknown = settings.allow_unknown_field
    try:
        return treelite.frontend.load_xgboost_model(path, format_choice="inspect", allow_unknown_field=unknown)
    except treelite.TreeliteError as error:
        if _CATEGORIES not in str(error):
            raise
        document = without_categories(path, model)
        if document is None:
            raise InternalError(
                f"'{path.name}' was trained on a data frame with categories, which can be read from JSON only: save it "
                "with save_model('xgboost.json'), and set model_type to xgboost_json"
            ) from None
        return treelite.frontend.from_xgboost_json(document, allow_unknown_field=unknown)


def _is_json(path: Path) -> bool:
    """Whether XGBoost wrote its newer formats, JSON or UBJSON, under the name of the old binary one."""
    with path.open("rb") as file:
        return file.read(1) == _JSON
