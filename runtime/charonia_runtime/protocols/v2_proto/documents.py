"""Messages that describe the server and its models: state, metadata, configuration, statistics (section 4)."""

from collections.abc import Mapping, Sequence
from typing import Any

from tritonclient.grpc import service_pb2

from charonia_runtime.core.request import ANY_VERSION
from charonia_runtime.core.server import ModelMetadata, ServerMetadata, TensorMetadata, VersionStatistics
from charonia_runtime.core.statistics import BatchStatistics, Duration, ModelStatistics, ResponseStatistics
from charonia_runtime.core.texts import utf8_text
from charonia_runtime.protocols.model_config import to_message
from charonia_runtime.protocols.model_version import parse_version
from charonia_runtime.protocols.v2_proto import parse

_INFERENCE_DURATIONS = (
    "success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss",
)  # fmt: skip
_BATCH_DURATIONS = ("compute_input", "compute_infer", "compute_output")
_RESPONSE_DURATIONS = ("compute_infer", "compute_output", "success", "fail", "empty_response", "cancel")


def decode_model(data: bytes) -> tuple[str, int]:
    """
    Name and version from a request for a model's readiness, metadata, configuration or statistics.

    The four messages have the same fields. Raises InternalError or, for a bad version, InvalidArgumentError.
    """
    message = parse(service_pb2.ModelMetadataRequest, data)
    return message.name, parse_version(message.version)


def decode_statistics(data: bytes) -> tuple[str, int]:
    """Like `decode_model`; without a name all models are meant, whatever the version."""
    name, version = decode_model(data)
    return name, version if name else ANY_VERSION


def decode_nothing(data: bytes) -> None:
    """A request without fields. Raises InternalError when the bytes are no message at all."""
    parse(service_pb2.ServerLiveRequest, data)


def encode_live(*, live: bool) -> bytes:
    return bytes(service_pb2.ServerLiveResponse(live=live).SerializeToString())


def encode_ready(*, ready: bool) -> bytes:
    """The answer to both ServerReady and ModelReady."""
    return bytes(service_pb2.ServerReadyResponse(ready=ready).SerializeToString())


def encode_server_metadata(metadata: ServerMetadata) -> bytes:
    message = service_pb2.ServerMetadataResponse(
        name=metadata.name, version=metadata.version, extensions=metadata.extensions
    )
    return bytes(message.SerializeToString())


def encode_model_metadata(metadata: ModelMetadata) -> bytes:
    message = service_pb2.ModelMetadataResponse(
        name=utf8_text(metadata.name),
        versions=[str(version) for version in metadata.versions],
        platform=metadata.platform,
        inputs=[_tensor(tensor) for tensor in metadata.inputs],
        outputs=[_tensor(tensor) for tensor in metadata.outputs],
    )
    return bytes(message.SerializeToString())


def encode_model_config(document: Mapping[str, Any]) -> bytes:
    """The complete configuration, from the document that Triton prints as JSON."""
    return bytes(service_pb2.ModelConfigResponse(config=to_message(document)).SerializeToString())


def encode_statistics(versions: Sequence[VersionStatistics]) -> bytes:
    message = service_pb2.ModelStatisticsResponse(model_stats=[_statistics(version) for version in versions])
    return bytes(message.SerializeToString())


def _tensor(tensor: TensorMetadata) -> Any:
    return service_pb2.ModelMetadataResponse.TensorMetadata(
        name=tensor.name, datatype=tensor.datatype.wire_name, shape=tensor.shape
    )


def _statistics(served: VersionStatistics) -> Any:
    statistics = served.statistics
    return service_pb2.ModelStatistics(
        name=utf8_text(served.name),
        version=str(served.version),
        last_inference=statistics.last_inference_ms,
        inference_count=statistics.inference_count,
        execution_count=statistics.execution_count,
        inference_stats=service_pb2.InferStatistics(**_durations(statistics, _INFERENCE_DURATIONS)),
        batch_stats=[
            service_pb2.InferBatchStatistics(batch_size=size, **_durations(batch, _BATCH_DURATIONS))
            for size, batch in sorted(statistics.batches.items())
        ],
        response_stats={
            index: service_pb2.InferResponseStatistics(**_durations(response, _RESPONSE_DURATIONS))
            for index, response in statistics.responses.items()
        },
    )


def _durations(
    counters: ModelStatistics | BatchStatistics | ResponseStatistics, names: Sequence[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        duration: Duration = getattr(counters, name)
        found[name] = service_pb2.StatisticDuration(count=duration.count, ns=duration.ns)
    return found
