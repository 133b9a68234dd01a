"""What clients asked to be made of their outputs: classifications instead of tensors, bytes in their shared memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError
from charonia_runtime.core.request import InferenceRequest, InferenceResponse, RequestedOutput
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor, pack_bytes
from charonia_runtime.engine.execution.model_paths import read_model_file

_MOST_ELEMENTS = 1_000_000
_NOT_CLASSIFIABLE = {DataType.BOOL, DataType.FP16, DataType.BF16, DataType.BYTES, DataType.INVALID}

Labels = Mapping[str, Sequence[str]]
"""Output → the label of each class."""


def read_labels(directory: Path, config: ModelConfig) -> Labels:
    """The label files that `config` names, out of the model's folder. Raises InferenceError."""
    return {spec.name: _read_lines(directory, spec.label_filename) for spec in config.outputs if spec.label_filename}


def _read_lines(directory: Path, filename: str) -> list[str]:
    """Lines as Triton cuts them: at newlines only."""
    text = read_model_file(directory, filename, "label_filename").decode(errors="surrogateescape")
    return text.removesuffix("\n").split("\n")


class AnswerFinisher:
    """
    Makes of one model's responses what their requests asked for. Has no state, so instances may share it.

    Used in the instance's thread: neither classes nor copies keep the event loop.
    """

    __slots__ = ("_batches", "_labels")

    def __init__(self, config: ModelConfig, labels: Labels) -> None:
        self._batches = config.batches
        self._labels = labels

    @property
    def labels(self) -> Labels:
        return self._labels

    def finish(self, answers: list[tuple[InferenceRequest, InferenceResponse]]) -> None:
        """Replace, in the list, the responses whose requests want something special; errors take their place."""
        for index, (request, response) in enumerate(answers):
            for output in request.outputs:
                if output.classes or output.memory is not None:
                    answers[index] = (request, self._finished(request, response))
                    break

    def _finished(self, request: InferenceRequest, response: InferenceResponse) -> InferenceResponse:
        wanted = {output.name: output for output in request.outputs}
        try:
            outputs = [self._finished_output(tensor, wanted[tensor.name]) for tensor in response.outputs]
        except InferenceError as error:
            return replace(response, outputs=[], error=error)
        return replace(response, outputs=outputs)

    def _finished_output(self, tensor: Tensor, output: RequestedOutput) -> Tensor:
        if output.classes:
            return classify(tensor, output.classes, self._labels.get(tensor.name, ()), batches=self._batches)
        if output.memory is not None and output.shared_memory is not None:
            return write(tensor, output.memory, output.shared_memory)
        return tensor


def write(tensor: Tensor, memory: memoryview | DeviceBuffer, ref: SharedMemoryRef) -> Tensor:
    """
    Copy the tensor's bytes into a client's memory, on the host or on a device. The result refers to them.

    Raises InternalError when they do not fit, or when a device fails.
    """
    size = tensor.byte_size
    if size > memory.nbytes:
        raise InternalError(
            f"shared memory size specified with the request for output '{tensor.name}' ({memory.nbytes} bytes) "
            f"should be at least {size} bytes to hold the results"
        )
    if isinstance(memory, DeviceBuffer):
        memory.fill(tensor.data if isinstance(tensor.data, DeviceBuffer) else tensor.buffer)
    else:
        memory[:size] = tensor.buffer
    return Tensor(tensor.name, tensor.datatype, tensor.shape, ref)


def classify(tensor: Tensor, classes: int, labels: Sequence[str], *, batches: bool) -> Tensor:
    """
    The classification extension: the `classes` largest values of each row as `<value>:<index>[:<label>]`.

    Raises InvalidArgumentError for types without an order or a format, and for tensors of more than a million elements.
    """
    if tensor.datatype in _NOT_CLASSIFIABLE:
        raise InvalidArgumentError(
            f"class result not available for output due to unsupported type '{tensor.datatype.wire_name}'"
        )
    if tensor.element_count > _MOST_ELEMENTS:
        raise InvalidArgumentError("classification output tensor too large")
    lead = tensor.shape[:1] if batches else ()
    width = prod(tensor.shape[len(lead) :])
    rows = tensor.as_numpy().reshape(*(lead or (1,)), width)
    count = min(classes, width)
    best = _largest_first(rows)[:, :count]
    values = np.take_along_axis(rows, best, axis=1)
    entries = [
        _entry(value, index, labels)
        for row, indexes in zip(values.tolist(), best.tolist(), strict=True)
        for value, index in zip(row, indexes, strict=True)
    ]
    return Tensor(tensor.name, DataType.BYTES, (*lead, count), pack_bytes(entries))


def _largest_first(rows: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Indexes by falling value; equal values by rising index, values that are no number last."""
    if rows.dtype.kind == "f":
        return np.argsort(-rows, axis=1, kind="stable")
    backwards: npt.NDArray[np.intp] = np.argsort(rows[:, ::-1], axis=1, kind="stable")[:, ::-1]
    forwards: npt.NDArray[np.intp] = rows.shape[1] - 1 - backwards
    return forwards


def _entry(value: object, index: int, labels: Sequence[str]) -> bytes:
    text = f"{value:f}:{index}" if isinstance(value, float) else f"{value}:{index}"
    label = labels[index] if index < len(labels) else ""
    return (f"{text}:{label}" if label else text).encode(errors="surrogateescape")
