"""The life of one loaded ONNX model."""

import logging
from typing import Any, ClassVar

from charonia_runtime.backends.onnxruntime.checks import check_graph
from charonia_runtime.backends.onnxruntime.completion import complete_from_graph, is_complete
from charonia_runtime.backends.onnxruntime.device_runs import DeviceRuns
from charonia_runtime.backends.onnxruntime.graph import read_graph
from charonia_runtime.backends.onnxruntime.instance import Instance
from charonia_runtime.backends.onnxruntime.library import (
    has_cuda_build,
    import_library,
    set_up_global_pool,
    wants_global_pool,
)
from charonia_runtime.backends.onnxruntime.providers import execution_providers
from charonia_runtime.backends.onnxruntime.sessions import SessionPlan, Sessions, run_options, session_settings
from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.batch_tensors import check_kinds
from charonia_runtime.core.config import InstanceKind, ModelConfig, Placement
from charonia_runtime.core.instances import placements, resolve_instance_groups
from charonia_runtime.core.parameters import boolean_of, integer_of
from charonia_runtime.model_file import find_model_file

_logger = logging.getLogger(__name__)
_DEFAULT_NAME = "model.onnx"
_DEFAULT_MAX_BATCH_SIZE = 4


class Backend:
    """
    One version of an ONNX model.

    A session is made once for each device and shared by the instances there: `run` is thread-safe, and weights are
    held once. Models that replay CUDA graphs are the exception, they get a session for each instance.
    """

    traits: ClassVar[BackendTraits] = BackendTraits(
        load_runs_no_code=True,
        default_model_filename=_DEFAULT_NAME,
        default_cpu_instances=2,
        # Without the GPU build of the package a model that says nothing of devices runs on the CPU.
        preferred_kind=InstanceKind.AUTO if has_cuda_build() else InstanceKind.CPU,
        optional_inputs=True,
        any_thread=True,
        device_inputs=has_cuda_build(),
    )

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._library: Any = import_library()
        self._global_pool = wants_global_pool(files.settings)
        if self._global_pool:
            set_up_global_pool(self._library, files.settings)
        self._sessions = Sessions(self._library)
        self._config: ModelConfig | None = None

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        if is_complete(config):
            _logger.debug(
                "skipping model configuration auto-complete for '%s': inputs and outputs already specified", config.name
            )
            return config
        default = integer_of(self._files.settings, "default-max-batch-size", _DEFAULT_MAX_BATCH_SIZE)
        session = self._sessions.get(self._plan(config, self._first_placement(config)))
        return complete_from_graph(config, read_graph(session), default)

    def load(self, config: ModelConfig) -> None:
        boolean_of(config.parameters, "share_session_between_instances", default=False)
        check_kinds(config)
        session = self._sessions.get(self._plan(config, self._first_placement(config)))
        check_graph(config, read_graph(session))
        self._config = config

    def create_instance(self, placement: Placement) -> Instance:
        if self._config is None:
            raise RuntimeError("create_instance before load")
        config = self._config
        plan = self._plan(config, placement)
        session = self._sessions.get(plan)
        graph = read_graph(session)
        # Graphs of CUDA want their inputs where they were when they were recorded, which is the session's business.
        on_gpu = placement.kind is InstanceKind.GPU and not plan.owner
        return Instance(
            self._library,
            session,
            run_options(self._library, plan.settings),
            config,
            graph,
            device_runs=DeviceRuns.on_gpu(self._library, session, graph, placement.device_id) if on_gpu else None,
        )

    def close(self) -> None:
        self._sessions.clear()

    def _plan(self, config: ModelConfig, placement: Placement) -> SessionPlan:
        providers = execution_providers(config, placement.kind, placement.device_id)
        return SessionPlan(
            # A model may be a folder, with its external data beside the file.
            find_model_file(
                self._files, config, placement.kind, placement.device_id, _DEFAULT_NAME, inside=_DEFAULT_NAME
            ),
            providers,
            session_settings(config, global_pool=self._global_pool),
            placement.name if any(provider.captures_graphs for provider in providers) else "",
        )

    def _first_placement(self, config: ModelConfig) -> Placement:
        """Where the first instance will run, so that the session for it is not made in vain."""
        return placements(resolve_instance_groups(config, self.traits, self._files.gpus))[0]
