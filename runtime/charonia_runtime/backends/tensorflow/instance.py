"""One instance: a batch's inputs into a session, its outputs back to the requests."""

from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.backends.tensorflow.library import text_of
from charonia_runtime.backends.tensorflow.signature import Signature
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.batch_tensors import batch_input, cut_output
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.scheduling import SequenceBatching


class Instance:
    """Runs one batch at a time on a session that others may share. tensorflow lets go of the GIL while it runs."""

    def __init__(self, session: Any, signature: Signature, config: ModelConfig) -> None:
        self._feeds = {name: signature.inputs[name].graph_name for name in _fed(config)}
        self._outputs = {spec.name: signature.outputs[spec.name].graph_name for spec in config.outputs}
        self._expected = {spec.name: spec.datatype for spec in config.outputs}
        # What is fed cannot be fetched, nor anything twice.
        self._fetches = list(dict.fromkeys(name for name in self._outputs.values() if name not in self._fed_names))
        self._run: Any = _callable(session, list(self._feeds.values()), self._fetches)
        self._batch_inputs = config.batch_inputs
        self._batch_outputs = {name: spec for spec in config.batch_outputs for name in spec.target_names}

    def execute(self, batch: Batch) -> None:
        feeds = self._gather(batch)
        batch.mark_inputs_ready()
        try:
            fetched = self._run(*feeds.values())
        except Exception as error:
            raise InternalError(text_of(error)) from error
        batch.mark_outputs_ready()
        outputs = self._named(feeds, fetched)
        if not self._batch_outputs:
            batch.scatter(outputs)
            return
        cut = {name: cut_output(batch, spec, name, outputs.pop(name)) for name, spec in self._batch_outputs.items()}
        batch.scatter(outputs, cut)

    def close(self) -> None:
        self._run = None

    @property
    def _fed_names(self) -> frozenset[str]:
        return frozenset(self._feeds.values())

    def _gather(self, batch: Batch) -> dict[str, npt.NDArray[Any]]:
        """Everything that is fed, in the order of the callable."""
        made = {name: batch_input(batch, spec) for spec in self._batch_inputs for name in spec.target_names}
        feeds: dict[str, npt.NDArray[Any]] = {}
        for name in self._feeds:
            array = made[name] if name in made else batch.gather(name)
            if array is None:
                raise InternalError(f"input '{name}' is missing from the batch")
            feeds[name] = array
        return feeds

    def _named(self, feeds: dict[str, npt.NDArray[Any]], fetched: list[Any]) -> dict[str, npt.NDArray[Any]]:
        """Outputs by their names to clients. Raises InvalidArgumentError for one that is not of its type."""
        values = dict(zip(self._fetches, fetched, strict=True))
        values |= {graph_name: feeds[name] for name, graph_name in self._feeds.items()}
        outputs: dict[str, npt.NDArray[Any]] = {}
        for name, graph_name in self._outputs.items():
            array = np.asarray(values[graph_name])
            produced = DataType.from_numpy(array.dtype)
            if produced is not self._expected[name]:
                raise InvalidArgumentError(
                    f"unexpected datatype TYPE_{produced.wire_name} for inference output '{name}', expecting "
                    f"TYPE_{self._expected[name].wire_name}"
                )
            outputs[name] = array
        return outputs


def _fed(config: ModelConfig) -> list[str]:
    """Names of everything that the model gets: from clients, or made for it."""
    names = [spec.name for spec in config.inputs]
    names += [name for spec in config.batch_inputs for name in spec.target_names]
    if isinstance(config.scheduling, SequenceBatching):
        names += [control.name for control in config.scheduling.controls]
    return list(dict.fromkeys(names))


def _callable(session: Any, feeds: list[str], fetches: list[str]) -> Any:
    """
    A function of arrays for what is fed, which gives a list of arrays.

    `session.run` looks up and checks every name in Python at each call, which takes longer than small models run.
    """
    from tensorflow.core.protobuf import config_pb2

    options = config_pb2.CallableOptions(feed=feeds, fetch=fetches)
    return session._make_callable_from_options(options)  # noqa: SLF001 - its public face has no list of feeds
