"""What is measured: models, the requests that load them, and the rows of the table."""

import json
import struct
from dataclasses import dataclass
from enum import StrEnum
from math import prod


class Wire(StrEnum):
    """How a server takes a tensor over HTTP."""

    V2_BINARY = "v2-binary"
    """The v2 protocol with the binary tensor extension."""
    V2_JSON = "v2-json"
    """The v2 protocol with tensors as JSON lists."""
    RAW = "raw"
    """The tensor's bytes alone, as servers without a protocol of their own do it."""


@dataclass(frozen=True)
class Network:
    """One model: a row of `shape` in FP32 in, a row of `output_shape` out."""

    name: str
    shape: tuple[int, ...]
    output_shape: tuple[int, ...]

    @property
    def is_onnx(self) -> bool:
        return self.name in {"mlp", "resnet50"}

    def values(self) -> list[float]:
        """A request's numbers: exact in FP32 and short in JSON."""
        return [(index % 7) / 8 for index in range(prod(self.shape))]

    def tensor(self) -> bytes:
        values = self.values()
        return struct.pack(f"<{len(values)}f", *values)


NETWORKS = {
    network.name: network
    for network in (
        Network("identity", (16,), (16,)),
        Network("image", (3, 224, 224), (3, 224, 224)),
        Network("mlp", (128,), (10,)),
        Network("resnet50", (3, 224, 224), (1000,)),
    )
}


@dataclass(frozen=True)
class Row:
    """One row of the table. `batch` > 0 lets servers form batches of that size; a figure takes `least_seconds`."""

    name: str
    title: str
    network: Network
    loader: str
    wire: Wire = Wire.V2_BINARY
    batch: int = 0
    concurrency: tuple[int, ...] = (1, 8, 32)
    least_seconds: int = 1


def _rows() -> dict[str, Row]:
    identity, image, mlp, resnet = (NETWORKS[name] for name in ("identity", "image", "mlp", "resnet50"))
    rows = (
        Row("identity-http", "FP32[16] identity, HTTP", identity, "wrk"),
        Row("identity-grpc", "FP32[16] identity, gRPC", identity, "h2load"),
        Row("image-http", "600 KB identity, HTTP", image, "wrk"),
        Row("image-grpc", "600 KB identity, gRPC", image, "h2load"),
        Row("mlp-http", "MLP, HTTP", mlp, "wrk"),
        Row("mlp-grpc", "MLP, gRPC", mlp, "h2load"),
        Row("mlp-batch-http", "MLP, HTTP, dynamic batching", mlp, "wrk", batch=32),
        Row("mlp-batch-grpc", "MLP, gRPC, dynamic batching", mlp, "h2load", batch=32),
        Row("resnet50-http", "ResNet-50, HTTP", resnet, "wrk", least_seconds=5),
        Row("image-http-shm", "600 KB in shared memory, HTTP", image, "perf_analyzer_http"),
        Row("image-grpc-shm", "600 KB in shared memory, gRPC", image, "perf_analyzer_grpc"),
        Row("identity-json", "FP32[16] as JSON", identity, "wrk", Wire.V2_JSON),
        Row("image-json", "600 KB as JSON", image, "wrk", Wire.V2_JSON, least_seconds=5),
    )
    return {row.name: row for row in rows}


ROWS = _rows()


@dataclass(frozen=True)
class HttpRequest:
    """A request as every client of a load sends it, and how its answer is read."""

    path: str
    headers: dict[str, str]
    body: bytes
    wire: Wire

    def read(self, headers: dict[str, str], body: bytes) -> list[float]:
        """The numbers of an answer; `headers` have names in lower case."""
        if self.wire is Wire.V2_JSON:
            data: list[float] = json.loads(body)["outputs"][0]["data"]
            return data
        start = int(headers.get("inference-header-content-length", 0)) if self.wire is Wire.V2_BINARY else 0
        return list(struct.unpack(f"<{(len(body) - start) // 4}f", body[start:]))


def http_request(network: Network, wire: Wire, raw_path: str = "/inference") -> HttpRequest:
    """The request over HTTP; `raw_path` is where a server without the v2 protocol answers."""
    octets = {"Content-Type": "application/octet-stream"}
    tensor = network.tensor()
    if wire is Wire.RAW:
        return HttpRequest(raw_path, octets, tensor, wire)
    described: dict[str, object] = {"name": "INPUT0", "shape": [1, *network.shape], "datatype": "FP32"}
    document: dict[str, object] = {"inputs": [described]}
    path = f"/v2/models/{network.name}/infer"
    if wire is Wire.V2_JSON:
        described["data"] = network.values()
        return HttpRequest(path, {"Content-Type": "application/json"}, _dense(document), wire)
    described["parameters"] = {"binary_data_size": len(tensor)}
    document["outputs"] = [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]
    head = _dense(document)
    return HttpRequest(path, {**octets, "Inference-Header-Content-Length": str(len(head))}, head + tensor, wire)


def grpc_message(network: Network) -> bytes:
    """A `ModelInferRequest`, written by hand so that the benchmark needs no generated code."""
    shape = b"".join(map(_varint, (1, *network.shape)))
    described = _field(1, b"INPUT0") + _field(2, b"FP32") + _field(3, shape)
    return b"".join((
        _field(1, network.name.encode()), _field(5, described), _field(6, _field(1, b"OUTPUT0")),
        _field(7, network.tensor()),
    ))  # fmt: skip


def _dense(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data
