"""The memory of inference requests: whatever other messages it has read before, a message means what it says."""

from typing import Any

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.protocols.v2_proto.decoder import InferDecoder, Message
from charonia_runtime.protocols.v2_proto.infer import InferMessage, MessageBytes
from tests.fuzzing.targets.infer_message import SEEDS as MESSAGES
from tests.fuzzing.targets.infer_message import _Sink

SEEDS = tuple(MESSAGES)

_DECODER = InferDecoder()
"""Of all inputs, as a server keeps it for all clients."""


def check(data: bytes) -> None:
    """Raises for whatever must not happen."""
    expected = _outcome(lambda read: InferMessage(MessageBytes(read)), data)
    for _ in range(2):
        found = _outcome(_DECODER.read, data)
        assert found == expected, (found, expected)
        assert _outcome(_DECODER.read, memoryview(data)) == expected


def _outcome(read: Any, data: bytes | memoryview) -> str:
    try:
        message: Message = read(data)
        request = message.request(1, _Sink())
    except InferenceError as error:
        return repr((type(error), error.message))
    plain = (request.parameters, request.outputs, request.sequence, request.priority, request.timeout_us)
    about = (message.id, message.model_name, message.version_text, message.wants_empty_final)
    return repr((request.id, plain, about, [_plain(tensor) for tensor in request.inputs.values()]))


def _plain(tensor: Tensor) -> tuple[Any, ...]:
    data = tensor.data
    return tensor.name, tensor.datatype, tensor.shape, bytes(data) if isinstance(data, memoryview) else data
