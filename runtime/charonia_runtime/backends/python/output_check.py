"""Outputs of a model's process beside what the configuration says of them."""

import logging
from math import prod

from charonia_runtime.core.config import ModelConfig, TensorSpec
from charonia_runtime.core.errors import InternalError
from charonia_runtime.ipc.messages import ResponseLayout
from charonia_runtime.ipc.packing import TensorPlace

logger = logging.getLogger(__name__)


class OutputCheck:
    """
    Looks at each new layout of the responses of one model version; its instances share it.

    Responses that are not as configured reach clients as they are, as in Triton. The first one is logged.
    """

    def __init__(self, config: ModelConfig, version: int) -> None:
        self._model = f"model '{config.name}' version {version}"
        self._specs = {spec.name: spec for spec in config.outputs}
        self._states = {state.output_name for state in config.states}
        self._batches = config.batches
        self._has_warned = False

    def check(self, layout: ResponseLayout) -> None:
        """Raises InternalError for a tensor whose bytes cannot be those of its shape."""
        for place in layout.outputs:
            _refuse_impossible(place)
            if not self._has_warned and (difference := self._difference(place)):
                self._has_warned = True
                logger.warning("%s: model.py answered with %s (told once a model)", self._model, difference)

    def _difference(self, place: TensorPlace) -> str:
        """What the output differs in; empty when it is as configured."""
        spec = self._specs.get(place.name)
        if spec is None:
            if place.name in self._states:
                return ""
            return f"output '{place.name}', which is dropped: its configuration has {_names(self._specs)}"
        if place.datatype is not spec.datatype:
            found, wanted = place.datatype.wire_name, spec.datatype.wire_name
            return f"output '{place.name}' of type {found}: its configuration says {wanted}"
        dims = self._dims(spec)
        if len(dims) != len(place.shape) or any(
            dim not in {-1, size} for dim, size in zip(dims, place.shape, strict=True)
        ):
            return f"output '{place.name}' of shape {list(place.shape)}: its configuration says {list(dims)}"
        return ""

    def _dims(self, spec: TensorSpec) -> tuple[int, ...]:
        dims = spec.dims if spec.reshape is None else spec.reshape
        return (-1, *dims) if self._batches else dims


def _refuse_impossible(place: TensorPlace) -> None:
    item_size = place.datatype.item_size
    if min(place.shape, default=0) < 0 or (item_size and item_size * prod(place.shape) != place.size):
        raise InternalError(
            f"malformed frame: {place.size} bytes for output '{place.name[:64]}' of type {place.datatype.wire_name} "
            f"and shape {list(place.shape)[:16]}"
        )


def _names(specs: dict[str, TensorSpec]) -> str:
    return ", ".join(f"'{name}'" for name in specs) or "no outputs"
