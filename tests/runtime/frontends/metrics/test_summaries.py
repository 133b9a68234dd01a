import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.server import VersionStatistics
from charonia_runtime.core.statistics import Duration, ExecutionTimes, ModelStatistics
from charonia_runtime.frontends.metrics import Frontend, Options
from charonia_runtime.frontends.metrics.summaries import WINDOW_NS, SummaryCollector, Window
from tests.support.fake_server import FakeServer

SECOND = 1_000_000_000
QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)


def quantiles(window, now_ns=0):
    return window.quantiles(QUANTILES, now_ns)


# --- windows ---


def test_nothing_happened():
    assert all(math.isnan(value) for value in quantiles(Window()))


@pytest.mark.parametrize("microseconds", [0, 1, 2, 3, 9, 37, 93])
def test_short_durations_are_exact(microseconds):
    window = Window()
    window.add(microseconds * 1000 + 999, 0)

    assert quantiles(window) == [microseconds] * 5


@given(microseconds=st.lists(st.integers(0, 10**9), min_size=1))
def test_quantiles_are_close_to_the_exact_ones(microseconds):
    window = Window()
    for value in microseconds:
        window.add(value * 1000, 0)

    ordered = sorted(microseconds)
    for quantile, value in zip(QUANTILES, quantiles(window), strict=True):
        exact = ordered[max(math.ceil(quantile * len(ordered)), 1) - 1]
        assert abs(value - exact) <= 0.005 * exact + 0.51


def test_a_minute_later_all_is_forgotten():
    window = Window()
    window.add(5_000, 0)

    assert quantiles(window, WINDOW_NS - SECOND) == [5] * 5
    assert math.isnan(quantiles(window, WINDOW_NS)[0])


def test_the_window_slides():
    window = Window()
    for second in range(600):
        window.add(second * 1000, second * SECOND)

    lowest, *_, highest = quantiles(window, 599 * SECOND)
    assert highest == pytest.approx(599, rel=0.0051)
    assert 599 - 60 <= lowest <= 599 - 45
    assert len(window._slots) <= 6


# --- the series ---


def answered(statistics, microseconds):
    """One request was answered now; the engine tells the statistics and their observer."""
    times = ExecutionTimes(0, 0, 0, 0)
    statistics.record_successes(1, 1, microseconds * 1000, 0, times)
    statistics.observer(times.end - microseconds * 1000, times.start, times)


@pytest.fixture
async def frontend():
    frontend = Frontend(
        Options(
            metrics_address="127.0.0.1",
            metrics_port=0,
            allow_cpu_metrics=False,
            metrics_config=("summary_latencies=true", "summary_quantiles=0.5:0.05,0.25:0.1"),
        ),
        FakeServer(),
    )
    frontend._server.add(ModelConfig("simple"))
    await frontend.start()
    yield frontend
    await frontend.stop(0)


async def lines(frontend):
    text = (await frontend.collect()).decode()
    return [line for line in text.splitlines() if "summary" in line]


async def test_models_without_requests(frontend):
    found = await lines(frontend)

    assert found[:6] == [
        "# HELP nv_inference_request_summary_us Summary of inference request duration in microseconds (includes cached requests)",
        "# TYPE nv_inference_request_summary_us summary",
        'nv_inference_request_summary_us_count{model="simple",version="1"} 0',
        'nv_inference_request_summary_us_sum{model="simple",version="1"} 0',
        'nv_inference_request_summary_us{model="simple",version="1",quantile="0.5"} Nan',
        'nv_inference_request_summary_us{model="simple",version="1",quantile="0.25"} Nan',
    ]
    assert [line.split()[2] for line in found if line.startswith("# TYPE")] == [
        "nv_inference_request_summary_us",
        "nv_inference_queue_summary_us",
        "nv_inference_compute_input_summary_us",
        "nv_inference_compute_infer_summary_us",
        "nv_inference_compute_output_summary_us",
    ]


async def test_requests_are_seen_from_the_start(frontend, monkeypatch):
    statistics = frontend._server.models["simple"][1].statistics
    monkeypatch.setattr("time.monotonic_ns", lambda: 0)
    for microseconds in (10, 20, 30):
        answered(statistics, microseconds)

    assert (await lines(frontend))[2:6] == [
        'nv_inference_request_summary_us_count{model="simple",version="1"} 3',
        'nv_inference_request_summary_us_sum{model="simple",version="1"} 60',
        'nv_inference_request_summary_us{model="simple",version="1",quantile="0.5"} 20',
        'nv_inference_request_summary_us{model="simple",version="1",quantile="0.25"} 10',
    ]


async def test_a_reload_goes_on_and_an_unload_forgets(frontend, monkeypatch):
    monkeypatch.setattr("time.monotonic_ns", lambda: 0)
    model = frontend._server.models["simple"][1]
    answered(model.statistics, 10)
    model.statistics = ModelStatistics()
    await lines(frontend)
    answered(model.statistics, 30)
    assert (await lines(frontend))[4].endswith(" 10")

    model.ready = False
    assert await lines(frontend) == []
    assert frontend._summaries._models == {}


async def test_cached_models_have_no_summary_of_requests(frontend):
    frontend._server.add(ModelConfig("no_cache_on_server", response_cache=True))
    frontend._server.add(
        ModelConfig("cached", response_cache=True), statistics=ModelStatistics(success=Duration(1, 1), cached=True)
    )

    found = await lines(frontend)
    names = {line.partition("{")[0] for line in found if '"cached"' in line}
    assert "nv_inference_request_summary_us" not in names
    assert "nv_inference_queue_summary_us" in names
    assert any(line.startswith('nv_inference_request_summary_us{model="no_cache') for line in found)


async def test_summaries_are_off_by_default():
    server = FakeServer()
    server.add(ModelConfig("simple"))
    frontend = Frontend(Options(), server)

    assert b"summary" not in await frontend.collect()
    assert server.models["simple"][1].statistics.observer is None


async def test_cached_models_have_summaries_of_lookups(frontend, monkeypatch):
    monkeypatch.setattr("time.monotonic_ns", lambda: 0)
    statistics = ModelStatistics(cached=True)
    frontend._server.add(ModelConfig("cached", response_cache=True), statistics=statistics)
    await lines(frontend)
    statistics.record_lookup(7_000, 0, hit=True)
    statistics.record_lookup(9_000, 0, hit=True)
    statistics.record_lookup(30_000, 0, hit=False)

    found = [line for line in await lines(frontend) if line.startswith("nv_cache_")]
    labels = 'model="cached",version="1"'
    assert found == [
        f"nv_cache_hit_summary_per_model_count{{{labels}}} 2",
        f"nv_cache_hit_summary_per_model_sum{{{labels}}} 16",
        f'nv_cache_hit_summary_per_model{{{labels},quantile="0.5"}} 7',
        f'nv_cache_hit_summary_per_model{{{labels},quantile="0.25"}} 7',
        f"nv_cache_miss_summary_per_model_count{{{labels}}} 1",
        f"nv_cache_miss_summary_per_model_sum{{{labels}}} 30",
        f'nv_cache_miss_summary_per_model{{{labels},quantile="0.5"}} 30',
        f'nv_cache_miss_summary_per_model{{{labels},quantile="0.25"}} 30',
    ]


async def test_models_of_one_name_have_their_own_quantiles(monkeypatch):
    monkeypatch.setattr("time.monotonic_ns", lambda: 0)
    entries = [
        VersionStatistics("m", 1, ModelConfig("m"), ModelStatistics(), namespace=namespace)
        for namespace in ("/a", "/b")
    ]
    collector = SummaryCollector((0.5,), {})
    collector.watch(entries)
    for entry, microseconds in zip(entries, (10, 20), strict=True):
        answered(entry.statistics, microseconds)

    family = next(iter(collector.collect()))
    assert {one.labels["namespace"]: one.value for one in family.samples if "quantile" in one.labels} == {
        "/a": 10, "/b": 20,
    }  # fmt: skip
