"""
`InferenceResponse` → `ModelInferResponse` and `ModelStreamInferResponse`.

A message is a list of serialised pieces, the tensors last: nothing is copied. Pieces that hardly change from one answer
to the next are kept.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tritonclient.grpc.service_pb2 import ModelInferResponse, ModelStreamInferResponse

from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.request import InferenceResponse, ParameterValue
from charonia_runtime.core.tensor import SharedMemoryRef
from charonia_runtime.core.texts import utf8_bytes, utf8_text
from charonia_runtime.protocols.v2_proto import MAX_MESSAGE_BYTES
from charonia_runtime.protocols.v2_proto.parameters import write_parameters
from charonia_runtime.protocols.v2_proto.wire import prefix

_ID: Final = 0x1A
_OUTPUT: Final = 0x2A
_RAW_CONTENTS: Final = 0x32
_INFER_RESPONSE: Final = 0x12
_MARGIN_BYTES: Final = 1 << 20
"""Room for everything in a message that is no tensor."""
_FINAL: Final = "triton_final_response"
Piece = bytes | memoryview
"""Bytes of a message; memoryviews are of bytes, so that their length is their size."""


def encode_response(response: InferenceResponse) -> list[Piece]:
    """
    The pieces of a `ModelInferResponse`. Tensors in shared memory leave an empty entry among the raw contents.

    Raises InternalError when the tensors exceed what a message can hold.
    """
    pieces = _pieces(response)
    if response.parameters:
        pieces.append(_parameters(response.parameters))
    return pieces


def encode_stream_response(response: InferenceResponse) -> list[Piece]:
    """
    The pieces of a `ModelStreamInferResponse` with a successful answer, which says whether it is the last one.

    Raises as above.
    """
    pieces = _pieces(response)
    if response.parameters:
        pieces.append(_parameters({**response.parameters, _FINAL: response.final}))
    else:
        pieces.append(_final_flag(final=response.final))
    pieces.insert(0, prefix(_INFER_RESPONSE, sum(map(len, pieces))))
    return pieces


def encode_stream_error(text: str, identifier: str, model_name: str, version_text: str, *, final: bool) -> bytes:
    """An answer of a stream that carries the error of an execution; the rest is as in the request."""
    message = ModelStreamInferResponse(error_message=utf8_text(text))
    _identify(message.infer_response, identifier, model_name, version_text, final=final)
    return bytes(message.SerializeToString())


def encode_stream_end(identifier: str, model_name: str, version_text: str) -> bytes:
    """The final flag of a decoupled model in an answer of its own."""
    message = ModelStreamInferResponse()
    _identify(message.infer_response, identifier, model_name, version_text, final=True)
    return bytes(message.SerializeToString())


def encode_stream_rejection(text: str, identifier: str) -> bytes:
    """An answer of a stream to a request that was refused before it was executed."""
    message = ModelStreamInferResponse(error_message=utf8_text(text))
    message.infer_response.SetInParent()
    message.infer_response.id = identifier
    return bytes(message.SerializeToString())


def _pieces(response: InferenceResponse) -> list[Piece]:
    pieces: list[Piece] = [_model(response.model_name, response.model_version)]
    if response.id:
        raw_id = utf8_bytes(response.id)
        pieces += (prefix(_ID, len(raw_id)), raw_id)
    outputs = response.outputs
    for tensor in outputs:
        pieces.append(_output(tensor.name, tensor.datatype.wire_name, tensor.shape))
    total = 0
    for tensor in outputs:
        if isinstance(tensor.data, SharedMemoryRef):
            pieces.append(prefix(_RAW_CONTENTS, 0))
        else:
            data = tensor.buffer
            size = data.nbytes
            total += size
            pieces += (prefix(_RAW_CONTENTS, size), data if data.itemsize == 1 else data.cast("B"))
    if total > MAX_MESSAGE_BYTES - _MARGIN_BYTES:
        raise InternalError(
            f"the response of model '{response.model_name}' holds {total} bytes of tensors, more than the "
            f"{MAX_MESSAGE_BYTES} bytes that a gRPC message can carry"
        )
    return pieces


@lru_cache(maxsize=1024)
def _model(name: str, version: int) -> bytes:
    return bytes(ModelInferResponse(model_name=name, model_version=str(version)).SerializeToString())


@lru_cache(maxsize=4096)
def _output(name: str, datatype: str, shape: tuple[int, ...]) -> bytes:
    message = ModelInferResponse.InferOutputTensor(name=utf8_text(name), datatype=datatype, shape=shape)
    content = bytes(message.SerializeToString())
    return prefix(_OUTPUT, len(content)) + content


@lru_cache(maxsize=2)
def _final_flag(*, final: bool) -> bytes:
    return _parameters({_FINAL: final})


def _parameters(parameters: Mapping[str, ParameterValue]) -> bytes:
    message = ModelInferResponse()
    write_parameters(parameters, message.parameters)
    return bytes(message.SerializeToString())


def _identify(answer: Any, identifier: str, model_name: str, version_text: str, *, final: bool) -> None:
    answer.id = identifier
    answer.model_name = model_name
    answer.model_version = version_text
    answer.parameters[_FINAL].bool_param = final
