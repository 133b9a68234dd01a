"""
A backend of one's own, to copy: each output is the input at the same position times a factor, or a factor a column.

A model is `1/model.json` with `{"factor": 2.5}` or `{"factor": [1, 2, 3]}`. Served as it lies here with

    charonia serve --model-repository=models --backend-directory=runtime/examples/backends

for models with `backend: "scale"`; or from a package whose pyproject.toml says

    [project.entry-points."charonia.backends"]
    scale = "my_package.backend:Backend"

`charonia_runtime.core.backend` tells what every method must do. Import a framework inside `__init__`, not above: this
file is read as soon as one model asks for it. Raise `InferenceError`s: their texts reach the client.
"""

import json
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import ModelConfig, Placement, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError

FILE = "model.json"


class Instance:
    """One of the model's instances: runs one batch at a time, always in the same thread unless traits say otherwise."""

    def __init__(self, factor: npt.NDArray[Any], config: ModelConfig) -> None:
        self._factor = factor
        self._names = [(source.name, output.name) for source, output in zip(config.inputs, config.outputs, strict=True)]

    def execute(self, batch: Batch) -> None:
        # All requests' rows, one after another; None where the requests lack an optional input.
        arrays = {output: batch.gather(source) for source, output in self._names}
        batch.mark_inputs_ready()
        outputs = {
            name: array * self._factor.astype(array.dtype) for name, array in arrays.items() if array is not None
        }
        # To each request its rows. Whatever is raised above instead becomes the error of all of them.
        batch.scatter(outputs)

    def close(self) -> None:
        """Free what the instance holds."""


class Backend:
    """One loaded version of a model, made anew for each: what it keeps, its instances share."""

    traits: ClassVar[BackendTraits] = BackendTraits(default_model_filename=FILE, any_thread=True)

    def __init__(self, files: ModelFiles) -> None:
        self._folder = files.version_directory
        # What `--backend-config=scale,default-factor=3` says.
        self._default = float(files.settings.get("default-factor", "1"))

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        """What the model file tells and the configuration leaves open; models without a configuration live on it."""
        if config.inputs or config.outputs:
            return config
        dims = self._read(config).shape or (-1,)
        tensors = [(TensorSpec(name, DataType.FP32, dims),) for name in ("INPUT0", "OUTPUT0")]
        return replace(config, max_batch_size=config.max_batch_size or 8, inputs=tensors[0], outputs=tensors[1])

    def load(self, config: ModelConfig) -> None:
        if len(config.inputs) != len(config.outputs):
            raise InvalidArgumentError(f"model '{config.name}': there must be as many outputs as inputs")
        self._config, self._factor = config, self._read(config)

    def create_instance(self, placement: Placement) -> Instance:  # noqa: ARG002 - runs on any processor
        return Instance(self._factor, self._config)

    def close(self) -> None:
        """Free what the instances shared."""

    def _read(self, config: ModelConfig) -> npt.NDArray[Any]:
        path = self._folder / (config.default_model_filename or FILE)
        return np.array(json.loads(path.read_text()).get("factor", self._default))
