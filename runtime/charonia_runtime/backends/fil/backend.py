"""The life of one loaded tree model."""

import logging
from dataclasses import replace
from typing import Any, ClassVar

from charonia_runtime.backends.fil.checks import SHAP, check_configuration
from charonia_runtime.backends.fil.completion import complete_from_trees, tells_classes_apart
from charonia_runtime.backends.fil.instance import Instance
from charonia_runtime.backends.fil.library import import_library, load_trees
from charonia_runtime.backends.fil.settings import (
    IS_CLASSIFIER,
    MODEL_FILES,
    MODEL_TYPE,
    OUTPUT_CLASS,
    Settings,
    read_settings,
)
from charonia_runtime.backends.fil.shap import Explainer
from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import UnsupportedError
from charonia_runtime.core.parameters import integer_of
from charonia_runtime.model_file import find_model_file

_DEFAULT_MAX_BATCH_SIZE = 4
_logger = logging.getLogger(__name__)


class Backend:
    """One version of a tree model; its instances share the trees."""

    traits: ClassVar[BackendTraits] = BackendTraits(
        load_runs_no_code=True, preferred_kind=InstanceKind.CPU, any_thread=True
    )

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._treelite: Any = import_library()
        self._trees: Any = None
        self._settings = Settings()
        self._config: ModelConfig | None = None
        self._scores = 0
        self._explainer: Explainer | None = None

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        if config.inputs and config.outputs:
            return config
        default = integer_of(self._files.settings, "default-max-batch-size", _DEFAULT_MAX_BATCH_SIZE)
        given = {IS_CLASSIFIER: "false"} | dict(config.parameters)
        settings, trees = self._read(replace(config, parameters=given))
        if not {IS_CLASSIFIER, OUTPUT_CLASS} & config.parameters.keys():
            settings = replace(settings, is_classifier=tells_classes_apart(trees))
        return complete_from_trees(config, trees, settings, default)

    def load(self, config: ModelConfig) -> None:
        settings, trees = self._read(config)
        header = trees.get_header_accessor()
        if int(header.get_field("num_target")[0]) > 1:
            raise UnsupportedError("Multi-target model not supported")
        self._scores = int(header.get_field("num_class")[0])
        check_configuration(config, settings, trees.num_feature, self._scores)
        if config.output(SHAP) is not None:
            self._explainer = Explainer(trees)
        self._settings, self._trees, self._config = settings, trees, config

    def create_instance(self, placement: Placement) -> Instance:
        if self._config is None:
            raise RuntimeError("create_instance before load")
        if placement.kind is InstanceKind.GPU:
            _logger.warning("instance '%s' is configured for a GPU, but trees run on the processor", placement.name)
        explainer = self._explainer
        return Instance(self._treelite, self._trees, self._config, self._settings, self._scores, explainer=explainer)

    def close(self) -> None:
        self._trees = None
        self._explainer = None

    def _read(self, config: ModelConfig) -> tuple[Settings, Any]:
        """What the parameters say, and the trees of the file that they mean."""
        filename = config.default_model_filename or self._only_file(config)
        settings = read_settings(config.parameters, config.name, filename)
        default = filename or MODEL_FILES[settings.model_type]
        path = find_model_file(self._files, config, InstanceKind.CPU, 0, default)
        return settings, load_trees(self._treelite, path, settings, config.name)

    def _only_file(self, config: ModelConfig) -> str:
        """The only file with a name that tells its format, where nothing else tells it."""
        found = [name for name in MODEL_FILES.values() if (self._files.version_directory / name).exists()]
        return found[0] if MODEL_TYPE not in config.parameters and len(found) == 1 else ""
