"""
Custom batching: a model's own word on which requests may share a batch, in Python where Triton has a C library.

The file is `batchstrategy.py`, in the places where Triton looks for `batchstrategy.so`: what the parameter
`TRITON_BATCH_STRATEGY_PATH` names in the model's folder, or else in the version's folder, the model's, the backend's.
It has a class `BatchStrategy`:

    class BatchStrategy:
        def __init__(self, config):
            self.most = int(config["parameters"]["MAX_BATCH_VOLUME_BYTES"]["string_value"])

        def initialize(self):
            self.volume = 0

        def include(self, request):
            self.volume += sum(tensor.byte_size for tensor in request.inputs.values())
            return self.volume <= self.most
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from charonia_runtime.core.request import InferenceRequest

STRATEGY_PARAMETER: Final = "TRITON_BATCH_STRATEGY_PATH"
"""The parameter of a model's configuration that names the file."""


class BatchStrategy(Protocol):
    """
    Makes the batches of one model version smaller than `dynamic_batching` would; it cannot make them larger.

    Called on the event loop's thread, for each request, so it must be quick: microseconds. The engine tries batches
    before it forms them: the same requests are offered again while they wait.
    """

    def initialize(self) -> None:
        """A batch begins; forget the last one (Triton's `ModelBatchInitialize`)."""

    def include(self, request: InferenceRequest) -> bool:
        """
        Whether the batch takes this request, the next in the queue (`ModelBatchIncludeRequest`).

        False ends the batch before it. The first one is taken whatever is said, for a batch is never empty. An
        exception is False, and an error in the log.
        """

    def finalize(self) -> None:
        """The batch is complete (`ModelBatchFinalize`). May be left out."""

    def close(self) -> None:
        """The version is unloaded (`ModelBatcherFinalize`). May be left out."""


class BatchStrategyFactory(Protocol):
    """The class `BatchStrategy` of the file (`ModelBatcherInitialize`)."""

    def __call__(self, config: Mapping[str, Any]) -> BatchStrategy:
        """`config` is the model's whole configuration, as the config endpoint shows it. May raise: the load fails."""
