"""The life of one loaded OpenVINO model."""

import logging
from typing import Any, ClassVar

from charonia_runtime.backends.openvino.checks import check_kind, check_network
from charonia_runtime.backends.openvino.completion import complete_from_network
from charonia_runtime.backends.openvino.instance import Instance
from charonia_runtime.backends.openvino.library import import_library, step
from charonia_runtime.backends.openvino.network import Network, describe, fit, read_model
from charonia_runtime.backends.openvino.settings import Settings, read_settings
from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.parameters import integer_of
from charonia_runtime.model_file import find_model_file

_DEFAULT_NAME = "model.xml"
_DEFAULT_MAX_BATCH_SIZE = 4
_logger = logging.getLogger(__name__)


class Backend:
    """One version of a model, read and compiled once; each instance has an inference request of its own."""

    traits: ClassVar[BackendTraits] = BackendTraits(
        load_runs_no_code=True, default_model_filename=_DEFAULT_NAME, preferred_kind=InstanceKind.CPU, any_thread=True
    )

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._library: Any = import_library()
        self._core: Any = self._library.Core()
        self._compiled: Any = None
        self._loaded: tuple[ModelConfig, Network] | None = None

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        if config.inputs and config.outputs:
            return config
        default = integer_of(self._files.settings, "default-max-batch-size", _DEFAULT_MAX_BATCH_SIZE)
        settings = read_settings(config.parameters)
        return complete_from_network(config, describe(self._library, self._read(config, settings)), default)

    def load(self, config: ModelConfig) -> None:
        for group in config.instance_groups:
            check_kind(config, group.kind)
        settings = read_settings(config.parameters)
        model = self._read(config, settings)
        network = describe(self._library, model)
        check_network(config, network, reshapes=settings.reshapes_inputs)
        fitted = fit(self._library, model, network, config, reshapes=settings.reshapes_inputs)
        with step("loading model"):
            self._compiled = self._core.compile_model(fitted, settings.device, self._properties(settings))
        self._loaded = config, network

    def create_instance(self, placement: Placement) -> Instance:
        if self._loaded is None:
            raise RuntimeError("create_instance before load")
        config, network = self._loaded
        check_kind(config, placement.kind)
        with step("creating inference request"):
            return Instance(self._compiled, config, network)

    def close(self) -> None:
        self._compiled = None
        self._loaded = None

    def _read(self, config: ModelConfig, settings: Settings) -> Any:
        if settings.extension_path:
            with step("loading custom layers"):
                self._core.add_extension(settings.extension_path)
        path = find_model_file(self._files, config, InstanceKind.CPU, 0, _DEFAULT_NAME)
        return read_model(self._core, path)

    def _properties(self, settings: Settings) -> dict[str, str]:
        """Those that the device knows; which ones do depends on openvino's version."""
        known = self._known_properties(settings.device)
        for name, _ in settings.properties:
            if known and name not in known:
                _logger.warning("openvino's device '%s' has no property '%s', it is ignored", settings.device, name)
        return {name: value for name, value in settings.properties if not known or name in known}

    def _known_properties(self, device: str) -> frozenset[str]:
        """Empty for devices that combine others."""
        if ":" in device:
            return frozenset()
        with step("loading model"):
            return frozenset(self._core.get_property(device, "SUPPORTED_PROPERTIES"))
