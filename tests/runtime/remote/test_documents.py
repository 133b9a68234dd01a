"""What crosses as JSON comes out as it went in, as far as frontends look at it."""

import json
from dataclasses import replace

from charonia_runtime.core.config import ModelConfig, TensorSpec
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
from charonia_runtime.core.statistics import BatchStatistics, Duration, ModelStatistics, ResponseStatistics
from charonia_runtime.remote import documents

CONFIG = ModelConfig(
    "m",
    backend="identity",
    platform="p",
    max_batch_size=4,
    inputs=(
        TensorSpec("A", DataType.BYTES, (-1, 2), (2,), optional=True),
        TensorSpec("B", DataType.BF16, (), allow_ragged=True, is_shape_tensor=True),
    ),
    outputs=(TensorSpec("C", DataType.FP32, (1,)),),
    decoupled=True,
)


def crossed(document):
    return json.loads(json.dumps(document))


def test_configurations():
    assert documents.read_config(crossed(documents.write_config(CONFIG))) == CONFIG


def test_metadata():
    server = ServerMetadata("n", "1.0", ("a", "b"))
    assert documents.read_server_metadata(crossed(documents.write_server_metadata(server))) == server
    tensor = TensorMetadata("A", DataType.INT64, (-1, 2))
    model = ModelMetadata("m", (1, 3), "p", (tensor,), (tensor, tensor))
    assert documents.read_model_metadata(crossed(documents.write_model_metadata(model))) == model


def test_lists():
    index = [IndexEntry("a"), IndexEntry("b", 1, "UNAVAILABLE", "unloaded")]
    assert documents.read_index(crossed(documents.write_index(index))) == index
    regions = [SystemRegion("r", "/k", 1, 2)]
    assert documents.read_system_regions(crossed(documents.write_system_regions(regions))) == regions
    devices = [CudaRegion("r", 1, 2)]
    assert documents.read_cuda_regions(crossed(documents.write_cuda_regions(devices))) == devices


def test_statistics():
    statistics = ModelStatistics(
        1,
        2,
        3,
        success=Duration(4, 5),
        cache_miss=Duration(6, 7),
        batches={8: BatchStatistics(compute_infer=Duration(9, 10))},
        responses={"0": ResponseStatistics(fail=Duration(11, 12))},
    )
    sent = [VersionStatistics("m", 2, CONFIG, statistics)]

    [found] = documents.read_statistics(crossed(documents.write_statistics(sent)))

    assert replace(found, statistics=statistics) == sent[0]
    assert found.statistics == statistics
