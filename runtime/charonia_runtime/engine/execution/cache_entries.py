"""Requests as keys of a response cache, and responses as its entries. Pure."""

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import orjson

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.request import InferenceRequest, InferenceResponse
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor

_KEY_BYTES: Final = 24
_LENGTH: Final = struct.Struct("<I")


def key_of(request: InferenceRequest, identifier: str, version: int) -> bytes:
    """
    What requests share that have the same answer: model, inputs with types and shapes, outputs as they are wanted.

    Triton leaves types, shapes and outputs out, so that it gives out other requests' answers.
    Parameters are left out here too: they are often different in each request, and say nothing to most models.
    """
    tensors = [request.inputs[input_name] for input_name in sorted(request.inputs)]
    outputs = sorted([(output.name, output.classes) for output in request.outputs])
    head = repr(
        (identifier, version, [(one.name, one.datatype.name, one.shape, one.byte_size) for one in tensors], outputs)
    )
    digest = blake2b(head.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES)
    for tensor in tensors:
        digest.update(tensor.buffer)
    return digest.digest()


def pack_response(request: InferenceRequest, response: InferenceResponse) -> list[bytes | memoryview] | None:
    """The pieces of the entry for a response; they refer to its tensors. None for one that cannot be kept."""
    memory = {output.name: output.memory for output in request.outputs}
    buffers: list[memoryview] = []
    for tensor in response.outputs:
        buffer = _bytes_of(tensor, memory.get(tensor.name))
        if buffer is None:
            return None
        buffers.append(buffer)
    described = [
        (tensor.name, tensor.datatype.name, tensor.shape, buffer.nbytes)
        for tensor, buffer in zip(response.outputs, buffers, strict=True)
    ]
    try:
        head = orjson.dumps([described, dict(response.parameters)])
    except TypeError:  # text that is not Unicode, integers of more than 64 bits
        return None
    return [_LENGTH.pack(len(head)), head, *buffers]


def unpack_response(entry: bytes) -> tuple[list[Tensor], dict[str, Any]]:
    """
    The outputs and parameters of an entry; the tensors refer to its bytes.

    Raises ValueError when it is none: another program wrote it.
    """
    view = memoryview(entry)
    try:
        (length,) = _LENGTH.unpack_from(view)
        at = _LENGTH.size + length
        described, parameters = orjson.loads(view[_LENGTH.size : at])
        outputs = []
        for name, datatype, shape, size in described:
            outputs.append(Tensor(name, DataType[datatype], tuple(shape), view[at : at + size]))
            at += size
        if at != view.nbytes:
            raise ValueError(f"the entry has {view.nbytes} bytes instead of {at}")
    except (struct.error, KeyError, TypeError) as error:
        raise ValueError(f"not an entry: {error}") from error
    return outputs, parameters


def input_bytes(request: InferenceRequest) -> int:
    """How much there is to digest for the request's key."""
    return sum([tensor.byte_size for tensor in request.inputs.values()])


def total_bytes(parts: Sequence[bytes | memoryview]) -> int:
    return sum([part.nbytes if isinstance(part, memoryview) else len(part) for part in parts])


def _bytes_of(tensor: Tensor, memory: memoryview | DeviceBuffer | None) -> memoryview | None:
    """The tensor's bytes, which may have been written to the client's memory already."""
    data = tensor.data
    if not isinstance(data, SharedMemoryRef):
        return tensor.buffer
    if memory is None:
        return None
    written = memory[: data.byte_size]
    return written.to_host() if isinstance(written, DeviceBuffer) else written
