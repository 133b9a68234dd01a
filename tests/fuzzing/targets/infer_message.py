"""`ModelInferRequest`: any bytes are a request, or are refused with an error of ours; tensors are views of them."""

from tritonclient.grpc.service_pb2 import ModelInferRequest

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceResponse
from charonia_runtime.protocols.v2_proto import infer


def _message(**fields: object) -> bytes:
    message = ModelInferRequest(model_name="m", id="1", **fields)
    tensor = message.inputs.add(name="IN", datatype="FP32", shape=[2])
    tensor.parameters["p"].int64_param = 3
    message.outputs.add(name="OUT").parameters["classification"].int64_param = 2
    return bytes(message.SerializeToString())


SEEDS = (
    _message(raw_input_contents=[b"12345678"]),
    _message(parameters={"sequence_id": {"int64_param": 5}, "sequence_start": {"bool_param": True}}),
    _message(model_version="3", raw_input_contents=[b"", b"x" * 300]),
)  # fmt: skip


class _Sink:
    def send(self, response: InferenceResponse) -> None:
        raise AssertionError("nothing was submitted")


def check(data: bytes) -> None:
    """Raises for whatever must not happen."""
    results = []
    for cut_from in (1 << 30, 0):
        infer._CUT_FROM_BYTES, before = cut_from, infer._CUT_FROM_BYTES  # type: ignore[misc]
        try:
            request = infer.InferMessage(infer.MessageBytes(data)).request(1, _Sink())
            tensors = [
                (t.name, t.datatype, t.shape, bytes(t.data) if isinstance(t.data, memoryview) else t.data)
                for t in request.inputs.values()
            ]
            results.append(repr((request.id, request.parameters, request.outputs, request.sequence, tensors)))
        except InferenceError as error:
            results.append(repr((type(error), error.message)))
        finally:
            infer._CUT_FROM_BYTES = before  # type: ignore[misc]
    assert results[0] == results[1], results
