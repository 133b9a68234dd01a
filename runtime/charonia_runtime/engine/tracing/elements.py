"""A finished trace as the elements of Triton's JSON array."""

from collections.abc import Iterator
from typing import Any

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor, unpack_bytes
from charonia_runtime.core.texts import utf8_text
from charonia_runtime.engine.tracing.request_trace import RequestTrace


def elements_of(trace: RequestTrace) -> Iterator[dict[str, Any]]:
    """What the frontend received, the model, what happened there, what the frontend sent."""
    yield from _timestamps(trace, trace.received)
    yield _model(trace)
    if trace.end_ns:
        yield from _timestamps(trace, [("REQUEST_START", trace.start_ns), ("QUEUE_START", trace.queue_ns)])
        yield from (_tensor(trace, "TENSOR_QUEUE_INPUT", tensor) for tensor in trace.inputs)
        yield from (_tensor(trace, "TENSOR_BACKEND_OUTPUT", tensor) for tensor in trace.outputs)
        yield from _timestamps(trace, course_of(trace))
        yield from _timestamps(trace, [("REQUEST_END", trace.end_ns)])
    yield from _timestamps(trace, trace.sent)


def course_of(trace: RequestTrace) -> list[tuple[str, int]]:
    """Between queue and end: the responses and the execution, each in its order, as Triton records them."""
    responses = [("INFER_RESPONSE_COMPLETE", ns) for ns in trace.response_ns]
    return [*responses, *computing_of(trace)]


def computing_of(trace: RequestTrace) -> list[tuple[str, int]]:
    """The edges of the execution; none for requests that were not executed themselves."""
    times = trace.times
    if times is None:
        return []
    return [
        ("COMPUTE_START", times.start),
        ("COMPUTE_INPUT_END", times.inputs_ready),
        ("COMPUTE_OUTPUT_START", times.outputs_ready),
        ("COMPUTE_END", times.end),
    ]


def _model(trace: RequestTrace) -> dict[str, Any]:
    element: dict[str, Any] = {
        "id": trace.id, "model_name": utf8_text(trace.model_name), "model_version": trace.model_version
    }  # fmt: skip
    if trace.request_id:
        element["request_id"] = utf8_text(trace.request_id)
    if trace.parent_id:
        element["parent_id"] = trace.parent_id
    return element


def _timestamps(trace: RequestTrace, events: list[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    if trace.wants_times:
        for name, ns in events:
            yield {"id": trace.id, "timestamps": [{"name": name, "ns": ns}]}


def _tensor(trace: RequestTrace, activity: str, tensor: Tensor) -> dict[str, Any]:
    return {
        "id": trace.id,
        "activity": activity,
        "tensor": {
            "name": utf8_text(tensor.name),
            "data": _data_text(tensor),
            "shape": ",".join(map(str, tensor.shape)),
            "dtype": tensor.datatype.wire_name,
        },
    }


def _data_text(tensor: Tensor) -> str:
    """The elements, comma separated: numbers as C++ prints them, strings quoted; nothing of a client's memory."""
    if isinstance(tensor.data, SharedMemoryRef):
        return ""
    if tensor.datatype is DataType.BYTES:
        return ",".join(f'"{element.decode(errors="replace")}"' for element in unpack_bytes(tensor.buffer, tensor.name))
    array = tensor.as_numpy().reshape(-1)
    if array.dtype.kind == "f":
        return ",".join(f"{value:g}" for value in array.tolist())
    return ",".join(str(int(value)) for value in array.tolist())
