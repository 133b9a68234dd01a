"""
Request bodies that attack the readers of JSON and protobuf, as data: a small description becomes a large text.

Each builder returns the whole text; `gzip.compress` makes it as small on the wire as an attacker sends it. All of them
are refused with an ordinary status, or are large but honest and are answered.
"""

from collections.abc import Iterator
from dataclasses import dataclass

INFER = "/v2/models/{model}/infer"
GENERATE = "/v2/models/{model}/generate"
INDEX = "/v2/repository/index"
LOAD = "/v2/repository/models/{model}/load"
UNLOAD = "/v2/repository/models/{model}/unload"
TRACE = "/v2/trace/setting"
LOGGING = "/v2/logging"
SYSTEM_MEMORY = "/v2/systemsharedmemory/region/attack/register"
CUDA_MEMORY = "/v2/cudasharedmemory/region/attack/register"
CONTROL = (INDEX, LOAD, UNLOAD, TRACE, LOGGING, SYSTEM_MEMORY, CUDA_MEMORY)


@dataclass(frozen=True)
class HostileBody:
    """A body for a POST to `path`; `{model}` in it stands for a model with one input of the named type and dims [-1]."""

    name: str
    path: str
    text: bytes
    datatype: str = "FP32"


def repeated(piece: bytes, count: int, before: bytes = b"", behind: bytes = b"", separator: bytes = b",") -> bytes:
    """`piece` written `count` times with a separator between, in a frame."""
    return before + (piece + separator) * (count - 1) + piece + behind


def an_input(datatype: str, shape: bytes, data: bytes) -> bytes:
    """A request with the one input `IN`."""
    return b'{"inputs":[{"name":"IN","datatype":"%b","shape":%b,"data":%b}]}' % (datatype.encode(), shape, data)


def long_arrays(elements: int) -> Iterator[HostileBody]:
    """Arrays and objects of that many elements at every place where a client can write one."""
    zeros, texts = repeated(b"0", elements, b"[", b"]"), repeated(b'""', elements, b"[", b"]")
    shape = b"[%d]" % elements
    yield HostileBody("numbers in data", INFER, an_input("UINT8", shape, zeros), "UINT8")
    yield HostileBody("texts in data", INFER, an_input("BYTES", shape, texts), "BYTES")
    yield HostileBody(
        "booleans in data", INFER, an_input("BOOL", shape, repeated(b"true", elements, b"[", b"]")), "BOOL"
    )
    yield HostileBody("numbers one level deeper", INFER, an_input("UINT8", shape, b"[%b]" % zeros), "UINT8")
    yield HostileBody("texts one level deeper", INFER, an_input("BYTES", shape, b"[%b]" % texts), "BYTES")
    yield HostileBody(
        "single numbers", INFER, an_input("UINT8", shape, repeated(b"[0]", elements, b"[", b"]")), "UINT8"
    )
    yield HostileBody("sizes in shape", INFER, an_input("FP32", zeros, b"[1]"))
    yield HostileBody("texts in shape", INFER, an_input("FP32", texts, b"[1]"))
    yield HostileBody("numbers in a parameter", INFER, b'{"parameters":{"x":%b},"inputs":[]}' % zeros)
    yield HostileBody(
        "numbers in an input's parameter", INFER,
        b'{"inputs":[{"name":"IN","datatype":"FP32","shape":[1],"data":[1],"parameters":{"x":%b}}]}' % zeros,
    )  # fmt: skip
    yield HostileBody("numbers for inputs", INFER, b'{"inputs":%b}' % zeros)
    yield HostileBody("numbers for outputs", INFER, b'{"inputs":[],"outputs":%b}' % zeros)
    yield HostileBody("an unknown member", INFER, b'{"unknown":%b,"inputs":[]}' % zeros)
    yield HostileBody("a tensor to generate", GENERATE, b'{"IN":%b}' % zeros, "UINT8")
    yield HostileBody("a parameter to generate", GENERATE, b'{"parameters":{"x":%b}}' % zeros)
    for path in CONTROL:
        yield HostileBody(f"an array to {path}", path, b'{"parameters":{"config":%b},"key":%b}' % (zeros, zeros[:9]))


def long_documents(entries: int) -> Iterator[HostileBody]:
    """Documents of that many entries, each of which would become an object or more."""
    yield HostileBody("empty arrays", INFER, repeated(b"[]", entries, b'{"inputs":[', b"]}"))
    yield HostileBody("empty objects", INFER, repeated(b"{}", entries, b'{"parameters":{"x":[', b"]}}"))
    yield HostileBody("repeated keys", INFER, repeated(b'"a":1', entries, b'{"inputs":[],', b"}"))
    yield HostileBody("open arrays", INFER, b"[" * entries)
    yield HostileBody("open objects", INFER, b'{"a":' * entries)
    yield HostileBody("strings", INFER, repeated(b'""', entries, b'{"unknown":[', b"]}"))
    yield HostileBody(
        "inputs", INFER,
        repeated(b'{"name":"i","datatype":"FP32","shape":[1],"data":[1]}', entries // 5, b'{"inputs":[', b"]}"),
    )  # fmt: skip
    yield HostileBody("outputs", INFER, repeated(b'{"name":"o"}', entries, b'{"inputs":[],"outputs":[', b"]}"))
    yield HostileBody("NaN beside numbers", INFER, repeated(b"1", entries, b'{"unknown":[NaN,', b"]}"))


@dataclass(frozen=True)
class HostileMessage:
    """Bytes of the `service_pb2` message of that name."""

    name: str
    message: str
    data: bytes


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf with a small number."""
    length = bytearray()
    size = len(content)
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((number << 3 | 2, *length, size)) + content


def long_messages(entries: int) -> Iterator[HostileMessage]:
    """Messages of that many fields, each of which protobuf would keep more than a hundred bytes for."""
    infer, empty = "ModelInferRequest", field(1, b"m")
    yield HostileMessage("empty inputs", infer, empty + field(5, b"") * entries)
    yield HostileMessage("empty outputs", infer, empty + field(6, b"") * entries)
    yield HostileMessage("parameters", infer, empty + field(4, b"") * entries)
    yield HostileMessage("raw tensors", infer, empty + field(7, b"") * entries)
    yield HostileMessage("parameters of an input", infer, empty + field(5, field(4, b"") * entries))
    yield HostileMessage("parameters of many inputs", infer, empty + field(5, field(4, b"") * 100) * (entries // 100))
    yield HostileMessage("strings", infer, empty + field(5, field(5, field(8, b"") * entries)))
    yield HostileMessage("numbers one by one", infer, empty + field(5, field(5, b"\x08\x01" * entries)))
    yield HostileMessage("sizes one by one", infer, empty + field(5, b"\x18\x01" * entries))
    yield HostileMessage("files to load", "RepositoryModelLoadRequest", field(2, b"m") + field(3, b"") * entries)
    yield HostileMessage("trace settings", "TraceSettingRequest", field(1, b"") * entries)
    yield HostileMessage(
        "values of a trace setting", "TraceSettingRequest", field(1, field(2, field(1, b"") * entries))
    )
    yield HostileMessage("log settings", "LogSettingsRequest", field(1, b"") * entries)
