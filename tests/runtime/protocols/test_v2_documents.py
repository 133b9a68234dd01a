"""The JSON of control answers, to the byte."""

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.server import (
    CudaRegion,
    IndexEntry,
    ModelMetadata,
    ServerMetadata,
    SystemRegion,
    TensorMetadata,
    VersionStatistics,
)
from charonia_runtime.core.statistics import (
    BatchStatistics,
    Duration,
    ModelStatistics,
    ResponseStatistics,
)
from charonia_runtime.protocols import v2_documents as documents

COUNTER = b'{"count":%d,"ns":%d}'


def test_errors() -> None:
    assert documents.render_error('é "so"\n') == '{"error":"é \\"so\\"\\n"}'.encode()


def test_metadata() -> None:
    assert documents.render_server_metadata(ServerMetadata("triton", "2.51.0", ("a", "b"))) == (
        b'{"name":"triton","version":"2.51.0","extensions":["a","b"]}'
    )
    tensor = TensorMetadata("INPUT0", DataType.BYTES, (-1, 16))
    assert documents.render_model_metadata(ModelMetadata("m", (1, 3), "python", (tensor,), ())) == (
        b'{"name":"m","versions":["1","3"],"platform":"python",'
        b'"inputs":[{"name":"INPUT0","datatype":"BYTES","shape":[-1,16]}],"outputs":[]}'
    )


def test_index_leaves_out_what_is_not_known() -> None:
    entries = [IndexEntry("a"), IndexEntry("b", 1, "READY"), IndexEntry("c", 2, "UNAVAILABLE", "unloaded")]
    assert documents.render_index(entries) == (
        b'[{"name":"a"},{"name":"b","version":"1","state":"READY"},'
        b'{"name":"c","version":"2","state":"UNAVAILABLE","reason":"unloaded"}]'
    )


def test_statistics() -> None:
    statistics = ModelStatistics(last_inference_ms=9, inference_count=3, execution_count=2, success=Duration(2, 50))
    statistics.batches = {2: BatchStatistics(Duration(1, 2)), 1: BatchStatistics()}
    statistics.responses = {"0": ResponseStatistics(success=Duration(1, 1))}
    text = documents.render_statistics([VersionStatistics("m", 1, ModelConfig("m"), statistics)])
    zero = COUNTER % (0, 0)
    assert text == (
        b'{"model_stats":[{"name":"m","version":"1","last_inference":9,"inference_count":3,"execution_count":2,'
        b'"inference_stats":{"success":%b,"fail":%b,"queue":%b,"compute_input":%b,"compute_infer":%b,'
        b'"compute_output":%b,"cache_hit":%b,"cache_miss":%b},"response_stats":{"0":{"compute_infer":%b,'
        b'"compute_output":%b,"success":%b,"fail":%b,"empty_response":%b,"cancel":%b}},"batch_stats":['
        b'{"batch_size":1,"compute_input":%b,"compute_infer":%b,"compute_output":%b},'
        b'{"batch_size":2,"compute_input":%b,"compute_infer":%b,"compute_output":%b}],"memory_usage":[]}]}'
    ) % (
        COUNTER % (2, 50), *[zero] * 7,
        zero, zero, COUNTER % (1, 1), zero, zero, zero,
        zero, zero, zero, COUNTER % (1, 2), zero, zero,
    )  # fmt: skip


def test_settings() -> None:
    assert documents.render_trace_settings({"trace_level": ("OFF",), "trace_rate": ("7",), "trace_file": ("",)}) == (
        b'{"trace_level":["OFF"],"trace_rate":"7","trace_file":""}'
    )
    assert documents.render_log_settings({"log_info": True, "log_verbose_level": 0, "log_format": "default"}) == (
        b'{"log_info":true,"log_verbose_level":0,"log_format":"default"}'
    )


def test_regions() -> None:
    assert documents.render_system_regions([SystemRegion("a", "/k", 4, 8)]) == (
        b'[{"name":"a","key":"/k","offset":4,"byte_size":8}]'
    )
    assert documents.render_cuda_regions([CudaRegion("a", 1, 8)]) == b'[{"name":"a","device_id":1,"byte_size":8}]'
