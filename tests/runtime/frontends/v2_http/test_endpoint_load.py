"""The header `endpoint-load-metrics` of the generate extension."""

import logging
from collections.abc import Mapping

import pytest

from charonia_runtime.core.custom_metrics import CustomMetrics, MetricKind
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.frontends.v2_http.endpoint_load import load_field
from tests.support.fake_server import FakeServer, echo_config
from tests.support.http_client import http_frontend

TRT_LLM = {"used": 3.0, "max": 8.0, "tokens_per": 64.0, "fraction": 0.4}


def report(metrics: CustomMetrics, family: str, *samples: tuple[Mapping[str, str], float]) -> None:
    opened = metrics.open_family(family, "", MetricKind.GAUGE)
    for labels, value in samples:
        metrics.open_metric(opened, labels, ()).value = value


def blocks(**values: float) -> CustomMetrics:
    metrics = CustomMetrics()
    samples = [({"kv_cache_block_type": kind, "model": "m"}, value) for kind, value in values.items()]
    report(metrics, "nv_trt_llm_kv_cache_block_metrics", *samples)
    return metrics


def test_blocks_of_tensorrt_llm() -> None:
    assert load_field(b"text", blocks(**TRT_LLM)) == (
        b"endpoint-load-metrics: TEXT named_metrics.kv_cache_utilization=0.375000, named_metrics.max_token_capacity=512"
        b"\r\n"
    )
    assert load_field(b"json", blocks(**TRT_LLM)) == (
        b'endpoint-load-metrics: JSON {"named_metrics":{"kv_cache_utilization":0.375,"max_token_capacity":512}}\r\n'
    )


def test_a_cache_without_blocks_is_not_in_use() -> None:
    assert b"kv_cache_utilization=0.000000" in load_field(b"text", blocks(used=0, max=0, tokens_per=64))


def test_gauges_of_vllm_where_there_are_no_blocks() -> None:
    metrics = CustomMetrics()
    report(metrics, "vllm:kv_cache_usage_perc", ({"model_name": "m"}, 0.25))
    report(metrics, "vllm:cache_config_info", ({"num_gpu_blocks": "100", "block_size": "16"}, 1.0))

    assert load_field(b"text", metrics) == (
        b"endpoint-load-metrics: TEXT named_metrics.kv_cache_utilization=0.250000, named_metrics.max_token_capacity=1600"
        b"\r\n"
    )


@pytest.mark.parametrize(
    ("wanted", "metrics", "said"),
    [
        (b"xml", blocks(**TRT_LLM), "accepted are text and json"),
        (b"text", blocks(used=3, max=8), "has no kv_cache_block_type tokens_per"),
        (b"text", CustomMetrics(), "there is neither nv_trt_llm_kv_cache_block_metrics nor vllm:kv_cache_usage_perc"),
    ],
)
def test_no_header_and_one_line_in_the_log(
    wanted: bytes, metrics: CustomMetrics, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert load_field(wanted, metrics) == b""

    (message,) = caplog.messages
    assert said in message


@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
async def test_answers_of_generate_have_it_when_asked(verb: str) -> None:
    server = FakeServer()
    server.add(echo_config("text", DataType.BYTES, (1,)))
    server.custom_metrics = blocks(**TRT_LLM)
    path, body = f"/v2/models/text/{verb}", '{"INPUT":"hello"}'
    async with http_frontend(server) as client:
        asked = await client.ask("POST", path, body, {"Endpoint-Load-Metrics-Format": "json"})
        plain = await client.ask("POST", path, body)

    assert asked.headers["endpoint-load-metrics"].startswith('JSON {"named_metrics":')
    assert "endpoint-load-metrics" not in plain.headers
    assert asked.body == plain.body
