"""Control tensors: what the batcher tells a model of each request's place in its sequence."""

from collections.abc import Mapping

import numpy as np

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, SequenceId
from charonia_runtime.core.scheduling import ControlKind, SequenceBatching, SequenceControl
from charonia_runtime.core.tensor import Tensor, pack_bytes

_NO_ID = 0


class Controls:
    """
    The control tensors of one model. All but those of correlation ids are made once: tensors are never changed.

    Where one tensor is to tell several things, the last of START, END, READY and CORRID wins, as in Triton.
    """

    __slots__ = ("_by_flags", "_correlation", "_model", "_null", "_shape")

    def __init__(self, config: ModelConfig, batching: SequenceBatching) -> None:
        self._model = config.name
        self._shape = (1, 1) if config.batches else (1,)
        by_kind = {control.kind: control for control in batching.controls}
        self._correlation = by_kind.get(ControlKind.CORRID)
        self._by_flags = tuple(
            self._values(by_kind, start=start, end=end, ready=True) for end in (False, True) for start in (False, True)
        )
        self._null = self._values(by_kind, start=False, end=False, ready=False)
        if self._correlation is not None:
            self._null[self._correlation.name] = self._correlation_tensor(self._correlation, _NO_ID)

    @property
    def null(self) -> Mapping[str, Tensor]:
        """The controls of a request that is none."""
        return self._null

    def check(self, request: InferenceRequest, correlation_id: int | str) -> None:
        """Raises InvalidArgumentError for an id of another kind than the model's CORRID tensor."""
        control = self._correlation
        if control is None or isinstance(correlation_id, str) == (control.datatype is DataType.BYTES):
            return
        found = DataType.BYTES if isinstance(correlation_id, str) else DataType.UINT64
        raise InvalidArgumentError(
            f"{request.error_prefix}sequence batching control '{control.name}' data-type is '{found.wire_name}', but "
            f"model '{self._model}' expects '{control.datatype.wire_name}'"
        )

    def of_sequence(self, correlation_id: int | str) -> Mapping[str, Tensor]:
        """The controls that all requests of a sequence share."""
        control = self._correlation
        return {} if control is None else {control.name: self._correlation_tensor(control, correlation_id)}

    def of_request(self, place: SequenceId) -> Mapping[str, Tensor]:
        """The controls that differ between the requests of a sequence."""
        return self._by_flags[place.start + 2 * place.end]

    def _values(
        self, by_kind: Mapping[ControlKind, SequenceControl], *, start: bool, end: bool, ready: bool
    ) -> dict[str, Tensor]:
        values = {ControlKind.START: start, ControlKind.END: end, ControlKind.READY: ready}
        controls = [(by_kind[kind], value) for kind, value in values.items() if kind in by_kind]
        return {control.name: self._flag_tensor(control, value) for control, value in controls}

    def _flag_tensor(self, control: SequenceControl, value: bool) -> Tensor:
        array = np.full(self._shape, control.false_true[value], control.datatype.numpy_dtype)
        return Tensor.from_numpy(control.name, array, control.datatype)

    def _correlation_tensor(self, control: SequenceControl, correlation_id: int | str) -> Tensor:
        """A string, or the low bytes of a number."""
        if control.datatype is DataType.BYTES:
            data = pack_bytes([correlation_id if isinstance(correlation_id, str) else ""])
        else:
            number = correlation_id if isinstance(correlation_id, int) else _NO_ID
            whole = (number & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")
            data = memoryview(whole[: control.datatype.item_size])
        return Tensor(control.name, control.datatype, self._shape, data)
