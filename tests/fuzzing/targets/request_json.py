"""Requests in JSON: the way straight to arrays and the careful one agree, and refuse with errors of ours only."""

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.request import InferenceResponse
from charonia_runtime.core.tensor import SharedMemoryRef
from charonia_runtime.protocols.v2_json import header, large_arrays

_MOST_BYTES = 100_000

SEEDS = (
    b'{"id":"a","inputs":[{"name":"IN","shape":[2,2],"datatype":"FP32","data":[[1,2.5],[-3e2,0]]}]}',
    b'{"parameters":{"sequence_id":5,"priority":1},"inputs":[{"name":"B","shape":[2],"datatype":"BYTES","data":["a","\\u00e4"]}]}',
    b'{"inputs":[{"name":"U","shape":[1],"datatype":"UINT64","data":[18446744073709551615]}],"outputs":[{"name":"O","parameters":{"binary_data":true}}]}',
    b'{"inputs":[{"name":"S","shape":[4],"datatype":"INT8","parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}}]}',
    b'{"inputs":[{"name":"X","shape":[3],"datatype":"BOOL","data":[true,false,true]}]}',
)


class _Sink:
    def send(self, response: InferenceResponse) -> None:
        raise AssertionError("nothing was submitted")


def check(data: bytes) -> None:
    """Raises for whatever must not happen."""
    assert _decode(data, large_arrays.FROM_BYTES) == _decode(data, 0)


def _decode(text: bytes, large_from: int) -> object:
    """What the request says, or the refusal; texts of at least `large_from` bytes go the way of large ones."""
    header.FROM_BYTES, before = large_from, header.FROM_BYTES  # type: ignore[misc]
    large_arrays._LONG_BYTES, large_arrays._LARGE_BYTES, kept = (
        2,
        0,
        (large_arrays._LONG_BYTES, large_arrays._LARGE_BYTES),
    )  # type: ignore[misc]
    try:
        found = header.read_header(text, 0, "m", _MOST_BYTES)
    except InferenceError as error:
        return type(error), error.message
    finally:
        header.FROM_BYTES = before  # type: ignore[misc]
        large_arrays._LONG_BYTES, large_arrays._LARGE_BYTES = kept  # type: ignore[misc]
    parts = [
        (part.name, part.datatype, part.shape, part.data if isinstance(part.data, SharedMemoryRef) else bytes(part.data or b""))
        for part in found.inputs.values()
    ]  # fmt: skip
    return repr((found.id, found.parameters, found.sequence, found.priority, parts, found.outputs))
