"""The life of one loaded PyTorch model."""

import logging
import threading
from pathlib import Path
from typing import Any, ClassVar

from charonia_runtime.backends.pytorch.completion import complete_from_archive, read_archive
from charonia_runtime.backends.pytorch.devices import device_name, open_device
from charonia_runtime.backends.pytorch.exported import load_exported
from charonia_runtime.backends.pytorch.instance import Instance
from charonia_runtime.backends.pytorch.library import has_cuda_build, import_library, set_up_process
from charonia_runtime.backends.pytorch.program import Program, check_configuration
from charonia_runtime.backends.pytorch.settings import Settings, read_settings
from charonia_runtime.backends.pytorch.torchscript import load_torchscript
from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.batch_tensors import check_kinds
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import UnavailableError
from charonia_runtime.core.instances import placements, resolve_instance_groups
from charonia_runtime.core.parameters import integer_of
from charonia_runtime.model_file import find_model_file

_TORCHSCRIPT_FILE = "model.pt"
_EXPORTED_FILE = "model.pt2"
_EXPORTED_PLATFORM = "torch_aoti"
_DEFAULT_MAX_BATCH_SIZE = 4
_logger = logging.getLogger(__name__)


class Backend:
    """
    One version of a TorchScript module or an exported program.

    Each instance has a copy of its own, because a module may keep tensors between calls; with `ENABLE_WEIGHT_SHARING`
    the instances on one device use the same.
    """

    traits: ClassVar[BackendTraits] = BackendTraits(
        default_model_filename=_TORCHSCRIPT_FILE,
        # With a build for processors only, a model that says nothing of devices runs there.
        preferred_kind=InstanceKind.AUTO if has_cuda_build() else InstanceKind.CPU,
        any_thread=True,
        device_inputs=True,
        python_runtime=True,
    )

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._torch: Any = import_library()
        self._config: ModelConfig | None = None
        self._settings = Settings()
        self._guard = threading.Lock()
        self._programs: dict[str | None, Program] = {}
        """Loaded ahead of the instance that will take it, or shared, by device."""

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        if config.inputs and config.outputs:
            return config
        archive = None
        if config.platform == _EXPORTED_PLATFORM:
            archive = read_archive(self._torch, self._find(config, InstanceKind.CPU, 0), config.name)
        if archive is None:
            _logger.warning(
                "skipping model configuration auto-complete for '%s': not supported for pytorch backend", config.name
            )
            return config
        default = integer_of(self._files.settings, "default-max-batch-size", _DEFAULT_MAX_BATCH_SIZE)
        return complete_from_archive(config, archive, default)

    def load(self, config: ModelConfig) -> None:
        check_configuration(config)
        check_kinds(config)
        self._settings = read_settings(config.parameters)
        self._config = config
        set_up_process(self._torch, self._settings, config.name)
        # One program is loaded here, so that a fault of the model shows before there are instances.
        first = placements(resolve_instance_groups(config, self.traits, self._files.gpus))[0]
        open_device(self._torch, first)
        self._programs[device_name(first)] = self._open(config, first)

    def create_instance(self, placement: Placement) -> Instance:
        if self._config is None:
            raise RuntimeError("create_instance before load")
        device = open_device(self._torch, placement)
        program = self._program(self._config, placement)
        return Instance(self._torch, program, device, self._config, self._settings)

    def close(self) -> None:
        self._programs.clear()

    def _program(self, config: ModelConfig, placement: Placement) -> Program:
        name = device_name(placement)
        if not self._settings.weight_sharing:
            with self._guard:
                program = self._programs.pop(name, None)
            return self._open(config, placement) if program is None else program
        with self._guard:
            if name not in self._programs:
                self._programs[name] = self._open(config, placement)
            return self._programs[name]

    def _open(self, config: ModelConfig, placement: Placement) -> Program:
        device = device_name(placement)
        path = self._find(config, placement.kind, placement.device_id)
        if config.platform == _EXPORTED_PLATFORM:
            return load_exported(path, device, config, placement)
        return load_torchscript(self._torch, path, device, config)

    def _find(self, config: ModelConfig, kind: InstanceKind, device_id: int) -> Path:
        is_exported = config.platform == _EXPORTED_PLATFORM
        default = _EXPORTED_FILE if is_exported else _TORCHSCRIPT_FILE
        try:
            return find_model_file(self._files, config, kind, device_id, default)
        except UnavailableError as error:
            if not is_exported:
                raise
            path = self._files.version_directory / (config.default_model_filename or default)
            text = f'PyTorch inductor model file "{path}" is unreachable or inaccessible.'
            raise UnavailableError(text) from error
