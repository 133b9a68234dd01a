"""Plans, loaded by the tensorrt backend without the engine, on the stand-ins of TensorRT and CUDA."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from charonia_runtime.backends import load_backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig, Placement
from charonia_runtime.core.errors import InferenceError
from tests.support.batches import RecordedBatch, a_batch
from tests.support.configs import a_config
from tests.support.loaded_models import execute
from tests.support.tensorrt_runtime import write_plan


def plan_config(**changes: Any) -> ModelConfig:
    """Nothing but what the plan will tell, for one instance on GPU 0 with the given `profiles`."""
    groups = (InstanceGroup("m", InstanceKind.GPU, 1, gpus=(0,), profiles=tuple(changes.pop("profiles", ()))),)
    fields = {"backend": "tensorrt", "platform": "tensorrt_plan", "max_batch_size": 0, "inputs": (), "outputs": ()}
    return a_config("m", **(fields | {"instance_groups": groups} | changes))


class Loaded:
    """A plan in a model's folder, loaded, with one instance for the first group."""

    def __init__(
        self,
        directory: Path,
        plan: bytes,
        config: ModelConfig | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        device: int = 0,
    ) -> None:
        files = ModelFiles("m", 1, directory, directory / "1", settings or {}, gpus=(0, 1))
        write_plan(directory, plan)
        self.backend: Any = load_backend("tensorrt")(files)
        self.config = self.backend.auto_complete(config or plan_config())
        self.backend.load(self.config)
        group = self.config.instance_groups[0]
        self.instance: Any = self.backend.create_instance(Placement("m_0", group.kind, device, profiles=group.profiles))

    def run(self, *requests: Mapping[str, np.ndarray[Any, Any]], outputs: Sequence[str] = ()) -> RecordedBatch:
        return execute(self.instance, a_batch(self.config, *requests, outputs=outputs))

    def close(self) -> None:
        self.instance.close()
        self.backend.close()


def error_of(batch: RecordedBatch, index: int = 0) -> InferenceError:
    (response,) = batch.responses_to(index)
    assert response.error is not None
    return response.error
