"""The life of one loaded tree model."""

import logging
from typing import Any, ClassVar

from charonia_runtime.backends.fil.checks import check_configuration
from charonia_runtime.backends.fil.instance import Instance
from charonia_runtime.backends.fil.library import import_library, load_trees
from charonia_runtime.backends.fil.settings import MODEL_FILES, Settings, read_settings
from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import UnsupportedError
from charonia_runtime.model_file import find_model_file

_logger = logging.getLogger(__name__)


class Backend:
    """One version of a tree model; its instances share the trees."""

    traits: ClassVar[BackendTraits] = BackendTraits(preferred_kind=InstanceKind.CPU, any_thread=True)

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._treelite: Any = import_library()
        self._trees: Any = None
        self._settings = Settings()
        self._config: ModelConfig | None = None
        self._scores = 0

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        return config

    def load(self, config: ModelConfig) -> None:
        settings = read_settings(config.parameters, config.name)
        path = find_model_file(self._files, config, InstanceKind.CPU, 0, MODEL_FILES[settings.model_type])
        trees = load_trees(self._treelite, path, settings, config.name)
        header = trees.get_header_accessor()
        if int(header.get_field("num_target")[0]) > 1:
            raise UnsupportedError("Multi-target model not supported")
        self._scores = int(header.get_field("num_class")[0])
        check_configuration(config, settings, trees.num_feature, self._scores)
        self._settings, self._trees, self._config = settings, trees, config

    def create_instance(self, placement: Placement) -> Instance:
        if self._config is None:
            raise RuntimeError("create_instance before load")
        if placement.kind is InstanceKind.GPU:
            _logger.warning("instance '%s' is configured for a GPU, but trees run on the processor", placement.name)
        return Instance(self._treelite, self._trees, self._config, self._settings, self._scores)

    def close(self) -> None:
        self._trees = None
