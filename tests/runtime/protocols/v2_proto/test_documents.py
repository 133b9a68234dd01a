"""Messages that describe the server, its models and its statistics."""

import pytest
from tritonclient.grpc import service_pb2

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InternalError, InvalidArgumentError
from charonia_runtime.core.request import ANY_VERSION
from charonia_runtime.core.server import ModelMetadata, ServerMetadata, TensorMetadata, VersionStatistics
from charonia_runtime.core.statistics import BatchStatistics, Duration, ModelStatistics, ResponseStatistics
from charonia_runtime.protocols import health_proto
from charonia_runtime.protocols.v2_proto import documents


def test_a_model_is_named_with_or_without_a_version() -> None:
    request = service_pb2.ModelMetadataRequest(name="m", version="3")
    assert documents.decode_model(request.SerializeToString()) == ("m", 3)
    assert documents.decode_model(b"") == ("", ANY_VERSION)


def test_a_bad_version_is_refused() -> None:
    request = service_pb2.ModelReadyRequest(name="m", version="abc")
    with pytest.raises(InvalidArgumentError, match="failed to get model version from specified version string 'abc'"):
        documents.decode_model(request.SerializeToString())


def test_statistics_of_all_models_have_no_version() -> None:
    request = service_pb2.ModelStatisticsRequest(version="3")
    assert documents.decode_statistics(request.SerializeToString()) == ("", ANY_VERSION)


@pytest.mark.parametrize("decode", [documents.decode_model, documents.decode_nothing, health_proto.decode_check])
def test_bytes_that_are_no_message(decode: object) -> None:
    assert callable(decode)
    with pytest.raises(InternalError, match=r"^Unable to parse request$"):
        decode(b"\xff\xff\xff\xff")


def test_states() -> None:
    assert service_pb2.ServerLiveResponse.FromString(documents.encode_live(live=True)).live
    assert not service_pb2.ServerReadyResponse.FromString(documents.encode_ready(ready=False)).ready
    assert service_pb2.ModelReadyResponse.FromString(documents.encode_ready(ready=True)).ready
    assert health_proto.encode_check(ready=True) == b"\x08\x01"
    assert health_proto.encode_check(ready=False) == b"\x08\x02"
    health_proto.decode_check(b"\x0a\x03abc")


def test_server_metadata() -> None:
    data = documents.encode_server_metadata(ServerMetadata("triton", "1.2", ("a", "b")))
    message = service_pb2.ServerMetadataResponse.FromString(data)
    assert (message.name, message.version, list(message.extensions)) == ("triton", "1.2", ["a", "b"])


def test_model_metadata() -> None:
    metadata = ModelMetadata(
        "m",
        (1, 3),
        "python",
        (TensorMetadata("A", DataType.BYTES, (-1, 2)),),
        (TensorMetadata("B", DataType.BF16, ()),),
    )
    message = service_pb2.ModelMetadataResponse.FromString(documents.encode_model_metadata(metadata))
    assert (message.name, list(message.versions), message.platform) == ("m", ["1", "3"], "python")
    assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in message.inputs] == [
        ("A", "BYTES", [-1, 2])
    ]
    assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in message.outputs] == [("B", "BF16", [])]


def test_model_config_takes_the_document_as_it_is_printed() -> None:
    document = {
        "name": "m",
        "max_batch_size": 8,
        "input": [{"name": "A", "data_type": "TYPE_FP32", "dims": ["-1", 3]}],
        "version_policy": {"latest": {"num_versions": 1}},
        "dynamic_batching": {"max_queue_delay_microseconds": "100"},
        "parameters": {"k": {"string_value": "v"}},
    }
    config = service_pb2.ModelConfigResponse.FromString(documents.encode_model_config(document)).config
    assert (config.name, config.max_batch_size, list(config.input[0].dims)) == ("m", 8, [-1, 3])
    assert config.WhichOneof("scheduling_choice") == "dynamic_batching"
    assert config.dynamic_batching.max_queue_delay_microseconds == 100
    assert config.parameters["k"].string_value == "v"


def test_statistics_show_every_duration_even_at_zero() -> None:
    statistics = ModelStatistics(last_inference_ms=5, inference_count=4, execution_count=2)
    statistics.success.add(1000, 3)
    statistics.batches[4] = BatchStatistics(compute_infer=Duration(1, 50))
    statistics.batches[1] = BatchStatistics()
    statistics.responses["0"] = ResponseStatistics(success=Duration(2, 7))
    data = documents.encode_statistics([VersionStatistics("m", 2, ModelConfig("m"), statistics)])
    (found,) = service_pb2.ModelStatisticsResponse.FromString(data).model_stats
    assert (found.name, found.version, found.last_inference, found.inference_count, found.execution_count) == (
        "m", "2", 5, 4, 2,
    )  # fmt: skip
    assert (found.inference_stats.success.count, found.inference_stats.success.ns) == (3, 1000)
    for name in (
        "success",
        "fail",
        "queue",
        "compute_input",
        "compute_infer",
        "compute_output",
        "cache_hit",
        "cache_miss",
    ):
        assert found.inference_stats.HasField(name)
    assert [batch.batch_size for batch in found.batch_stats] == [1, 4]
    assert found.batch_stats[0].HasField("compute_output")
    assert found.batch_stats[1].compute_infer.ns == 50
    assert found.response_stats["0"].success.count == 2
    assert found.response_stats["0"].HasField("cancel")
