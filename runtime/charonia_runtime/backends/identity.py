"""The `identity` backend: every input comes back as the output at the same position. For tests and measurements."""

import time
from typing import ClassVar

from charonia_runtime.core.backend import BackendTraits, ModelFiles
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import ModelConfig, Placement
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.tensor import Tensor

_DELAY_PARAMETER = "execute_delay_ms"


class Instance:
    """Answers with the memory of the requests themselves. `delay` in seconds makes each batch slower."""

    def __init__(self, output_names: dict[str, str], delay: float) -> None:
        self._output_names = output_names
        self._delay = delay

    def execute(self, batch: Batch) -> None:
        batch.mark_inputs_ready()
        if self._delay:
            time.sleep(self._delay)
        batch.mark_outputs_ready()
        for index, request in enumerate(batch.requests):
            batch.respond(
                index,
                [
                    Tensor(self._output_names[tensor.name], tensor.datatype, tensor.shape, tensor.buffer)
                    for tensor in request.inputs.values()
                    if tensor.name in self._output_names
                ],
            )

    def close(self) -> None:
        pass


class Backend:
    """
    A model without a file. Output i must have the datatype and dims of input i; an absent optional input has no output.

    The parameter `execute_delay_ms` is the time that each batch takes, in milliseconds.
    """

    traits: ClassVar[BackendTraits] = BackendTraits(optional_inputs=True, any_thread=True)

    def __init__(self, files: ModelFiles) -> None:
        self._name = files.name
        self._output_names: dict[str, str] = {}
        self._delay = 0.0

    def auto_complete(self, config: ModelConfig) -> ModelConfig:
        return config

    def load(self, config: ModelConfig) -> None:
        if len(config.outputs) > len(config.inputs):
            raise InvalidArgumentError(
                f"model '{self._name}': identity needs an input for each of its {len(config.outputs)} outputs, "
                f"the configuration has {len(config.inputs)} inputs"
            )
        for source, output in zip(config.inputs, config.outputs, strict=False):
            if (source.datatype, source.dims) != (output.datatype, output.dims):
                raise InvalidArgumentError(
                    f"model '{self._name}': output '{output.name}' must have the data_type and dims of input "
                    f"'{source.name}'"
                )
        self._output_names = {
            source.name: output.name for source, output in zip(config.inputs, config.outputs, strict=False)
        }
        self._delay = _delay_seconds(config.parameters.get(_DELAY_PARAMETER, "0"))

    def create_instance(self, placement: Placement) -> Instance:  # noqa: ARG002 - runs anywhere
        return Instance(self._output_names, self._delay)

    def close(self) -> None:
        pass


def _delay_seconds(milliseconds: str) -> float:
    if not milliseconds.isdecimal():
        raise InvalidArgumentError(
            f"parameter '{_DELAY_PARAMETER}' must be a whole number of milliseconds, got '{milliseconds}'"
        )
    return int(milliseconds) / 1000
