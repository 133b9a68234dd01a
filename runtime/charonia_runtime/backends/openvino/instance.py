"""One instance: a batch's inputs into an inference request, its outputs back to the requests."""

from typing import Any

from charonia_runtime.backends.openvino.library import step_error
from charonia_runtime.backends.openvino.network import Network, port_of
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InternalError


class Instance:
    """Runs one batch at a time on a compiled model that others share. openvino lets go of the GIL while it runs."""

    def __init__(self, compiled: Any, config: ModelConfig, network: Network) -> None:
        self._request: Any = compiled.create_infer_request()
        self._inputs = {spec.name: port_of(network.inputs, spec.name) for spec in config.inputs}
        self._outputs = {spec.name: port_of(network.outputs, spec.name) for spec in config.outputs}

    def execute(self, batch: Batch) -> None:
        feeds: dict[int | None, Any] = {}
        for name, position in self._inputs.items():
            array = batch.gather(name)
            if array is None:
                raise InternalError(f"input '{name}' is missing from the batch")
            feeds[position] = array
        batch.mark_inputs_ready()
        try:
            # Outputs are copied: openvino uses their memory again for the next batch.
            made = self._request.infer(feeds, share_inputs=True, share_outputs=False).to_tuple()
        except Exception as error:
            raise step_error("running async inference", error) from error
        batch.mark_outputs_ready()
        batch.scatter({name: made[position] for name, position in self._outputs.items()})

    def close(self) -> None:
        self._request = None
