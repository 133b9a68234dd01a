"""The metrics frontend over its port: what a scraper sees, and what hostile clients get."""

import asyncio
import socket
import struct
import time
from typing import ClassVar

import pytest
from blockbuster import blockbuster_ctx
from prometheus_client.parser import text_string_to_metric_families

from charonia_runtime.core.cache import CacheUse
from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig
from charonia_runtime.core.custom_metrics import MetricKind
from charonia_runtime.core.errors import InternalError, UnavailableError
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.core.histogram import Histogram
from charonia_runtime.core.server import IndexEntry, VersionStatistics
from charonia_runtime.core.statistics import Duration, FailureReason, ModelStatistics
from charonia_runtime.frontends.metrics import Frontend, Options
from charonia_runtime.frontends.metrics.machine import GpuProbe
from tests.support.fake_server import FakeServer, echo_config


def counted(**counters) -> ModelStatistics:
    return ModelStatistics(**counters)


@pytest.fixture
def server():
    server = FakeServer()
    statistics = counted(
        inference_count=8,
        execution_count=3,
        success=Duration(4, 21_213_999),
        queue=Duration(4, 100_999),
        compute_input=Duration(4, 169_001),
        compute_infer=Duration(4, 20_525_751),
        compute_output=Duration(4, 999),
        pending=5,
        load_ns=1_500_000_000,
    )
    statistics.failures[FailureReason.REJECTED] = 2
    server.add(echo_config("simple"), statistics=statistics)
    return server


@pytest.fixture
async def start():
    """Start frontends on a free port of the loopback interface."""
    started = []

    async def begin(server, **options):
        frontend = Frontend(Options(metrics_address="127.0.0.1", metrics_port=0, **options), server)
        await frontend.start()
        started.append(frontend)
        return frontend

    yield begin
    for frontend in started:
        await frontend.stop(1)


class Client:
    """A raw connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def ask(self, data: bytes) -> tuple[str, dict[str, str], bytes]:
        self.writer.write(data)
        return await self.answer()

    async def answer(self) -> tuple[str, dict[str, str], bytes]:
        """Status line, headers and body of the next answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = head.strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return status, headers, await self.reader.readexactly(int(headers["Content-Length"]))

    async def is_closed(self) -> bool:
        return await self.reader.read(1) == b""


@pytest.fixture
async def connect():
    opened = []

    async def open_client(frontend):
        client = Client(*await asyncio.open_connection("127.0.0.1", port_of(frontend)))
        opened.append(client)
        return client

    yield open_client
    for client in opened:
        client.writer.close()


def port_of(frontend) -> int:
    return int(frontend.address.rpartition(":")[2])


async def scrape(frontend) -> str:
    return (await frontend.collect()).decode()


def families(text: str) -> dict[str, list[str]]:
    """Family → its lines of samples."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            current = found.setdefault(line.split()[2], [])
        elif not line.startswith("#"):
            current.append(line)
    return found


# --- the text ---


async def test_models_have_triton_s_series(start, server):
    text = await scrape(await start(server, allow_cpu_metrics=False, allow_gpu_metrics=False))

    assert text.partition("# HELP process_")[0] == (
        "# HELP nv_inference_request_success Number of successful inference requests, all batch sizes\n"
        "# TYPE nv_inference_request_success counter\n"
        'nv_inference_request_success{model="simple",version="1"} 4\n'
        "# HELP nv_inference_request_failure Number of failed inference requests, all batch sizes\n"
        "# TYPE nv_inference_request_failure counter\n"
        'nv_inference_request_failure{model="simple",reason="REJECTED",version="1"} 2\n'
        'nv_inference_request_failure{model="simple",reason="CANCELED",version="1"} 0\n'
        'nv_inference_request_failure{model="simple",reason="BACKEND",version="1"} 0\n'
        'nv_inference_request_failure{model="simple",reason="OTHER",version="1"} 0\n'
        "# HELP nv_inference_count Number of inferences performed (does not include cached requests)\n"
        "# TYPE nv_inference_count counter\n"
        'nv_inference_count{model="simple",version="1"} 8\n'
        "# HELP nv_inference_exec_count Number of model executions performed (does not include cached requests)\n"
        "# TYPE nv_inference_exec_count counter\n"
        'nv_inference_exec_count{model="simple",version="1"} 3\n'
        "# HELP nv_inference_request_duration_us Cumulative inference request duration in microseconds (includes cached requests)\n"
        "# TYPE nv_inference_request_duration_us counter\n"
        'nv_inference_request_duration_us{model="simple",version="1"} 21213\n'
        "# HELP nv_inference_queue_duration_us Cumulative inference queuing duration in microseconds (includes cached requests)\n"
        "# TYPE nv_inference_queue_duration_us counter\n"
        'nv_inference_queue_duration_us{model="simple",version="1"} 100\n'
        "# HELP nv_inference_compute_input_duration_us Cumulative compute input duration in microseconds (does not include cached requests)\n"
        "# TYPE nv_inference_compute_input_duration_us counter\n"
        'nv_inference_compute_input_duration_us{model="simple",version="1"} 169\n'
        "# HELP nv_inference_compute_infer_duration_us Cumulative compute inference duration in microseconds (does not include cached requests)\n"
        "# TYPE nv_inference_compute_infer_duration_us counter\n"
        'nv_inference_compute_infer_duration_us{model="simple",version="1"} 20525\n'
        "# HELP nv_inference_compute_output_duration_us Cumulative inference compute output duration in microseconds (does not include cached requests)\n"
        "# TYPE nv_inference_compute_output_duration_us counter\n"
        'nv_inference_compute_output_duration_us{model="simple",version="1"} 0\n'
        "# HELP nv_inference_pending_request_count Instantaneous number of pending requests awaiting execution per-model.\n"
        "# TYPE nv_inference_pending_request_count gauge\n"
        'nv_inference_pending_request_count{model="simple",version="1"} 5\n'
        "# HELP nv_model_load_duration_secs Model load time in seconds\n"
        "# TYPE nv_model_load_duration_secs gauge\n"
        'nv_model_load_duration_secs{model="simple",version="1"} 1.5\n'
        "# HELP nv_pinned_memory_pool_total_bytes Pinned memory pool total memory size, in bytes\n"
        "# TYPE nv_pinned_memory_pool_total_bytes gauge\n"
        "nv_pinned_memory_pool_total_bytes 268435456\n"
        "# HELP nv_pinned_memory_pool_used_bytes Pinned memory pool used memory size, in bytes\n"
        "# TYPE nv_pinned_memory_pool_used_bytes gauge\n"
        "nv_pinned_memory_pool_used_bytes 0\n"
    )


async def test_prometheus_can_read_it(start, server):
    server.add(ModelConfig("odd\n", metric_tags={"team x": 'a"b\\c\nd', "Zed": "é"}), version=3)

    text = await scrape(await start(server))
    samples = {
        (sample.name.removesuffix("_total"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    assert samples["nv_inference_count", (("model", "simple"), ("version", "1"))] == 8
    odd = (("_Zed", "é"), ("_team_x", 'a"b\\c\nd'), ("model", "odd\n"), ("version", "3"))
    assert samples["nv_inference_count", odd] == 0
    assert samples["nv_cpu_memory_total_bytes", ()] > samples["nv_cpu_memory_used_bytes", ()] > 0
    assert 0 <= samples["nv_cpu_utilization", ()] <= 1


async def test_a_server_without_models_has_no_model_families(start):
    text = await scrape(await start(FakeServer(), allow_cpu_metrics=False))

    assert {name for name in families(text) if not name.startswith("process_")} == {
        "nv_pinned_memory_pool_total_bytes",
        "nv_pinned_memory_pool_used_bytes",
    }


async def test_models_that_are_unloaded_vanish(start, server):
    frontend = await start(server)
    await server.unload_model("simple")

    assert "simple" not in await scrape(frontend)


async def test_counters_survive_a_reload(start, server):
    class Reloaded(FakeServer):
        async def statistics(self, name="", version=-1):
            earlier = counted(success=Duration(3, 1_999), pending=7)
            earlier.failures[FailureReason.BACKEND] = 1
            now = counted(success=Duration(1, 2_001), pending=2)
            return [VersionStatistics("simple", 1, ModelConfig("simple"), now, earlier)]

    found = families(await scrape(await start(Reloaded())))

    assert found["nv_inference_request_success"][0].endswith(" 4")
    assert found["nv_inference_request_duration_us"][0].endswith(" 4")
    assert found["nv_inference_pending_request_count"][0].endswith(" 2")
    assert (
        'nv_inference_request_failure{model="simple",reason="BACKEND",version="1"} 1'
        in (found["nv_inference_request_failure"])
    )


async def test_cached_models_show_their_cache(start):
    server = FakeServer()
    used = counted(cache_hit=Duration(2, 24_999), cache_miss=Duration(1, 93_000), cached=True)
    server.add(ModelConfig("cached", response_cache=True), statistics=used)
    server.add(ModelConfig("no_cache_on_server", response_cache=True))
    server.add(ModelConfig("plain"), statistics=counted())

    found = families(await scrape(await start(server)))

    labels = '{model="cached",version="1"}'
    assert found["nv_cache_num_hits_per_model"] == [f"nv_cache_num_hits_per_model{labels} 2"]
    assert found["nv_cache_hit_duration_per_model"] == [f"nv_cache_hit_duration_per_model{labels} 24"]
    assert found["nv_cache_num_misses_per_model"] == [f"nv_cache_num_misses_per_model{labels} 1"]
    assert found["nv_cache_miss_duration_per_model"] == [f"nv_cache_miss_duration_per_model{labels} 93"]


async def test_cached_models_show_their_cache_before_anything_is_looked_up(start):
    server = FakeServer()
    server.add(ModelConfig("cached", response_cache=True), statistics=counted(cached=True))

    found = families(await scrape(await start(server)))

    assert found["nv_cache_num_misses_per_model"] == ['nv_cache_num_misses_per_model{model="cached",version="1"} 0']


async def test_the_cache_of_this_server(start):
    server = FakeServer()
    server.cache_use = CacheUse(capacity=1000, used=250, entries=3, lookups=9, hits=4, misses=5, lookup_ns=12_999)

    found = families(await scrape(await start(server)))

    assert [line for name, lines in found.items() if name.startswith("nv_cache") for line in lines] == [
        "nv_cache_util 0.25",
        "nv_cache_num_entries 3",
        "nv_cache_num_hits 4",
        "nv_cache_num_misses 5",
        "nv_cache_num_lookups 9",
        "nv_cache_num_evictions 0",
        "nv_cache_lookup_duration 12",
        "nv_cache_insertion_duration 0",
    ]


async def test_first_responses_are_a_histogram(start):
    server = FakeServer()
    histogram = Histogram((100.0, 2000.0))
    for milliseconds in (1.5, 100.0, 100.5, 9000.0):
        histogram.observe(milliseconds)
    server.add(ModelConfig("timed"), statistics=counted(first_response=histogram))

    found = families(await scrape(await start(server)))

    name = "nv_inference_first_response_histogram_ms"
    assert found[name] == [
        f'{name}_count{{model="timed",version="1"}} 4',
        f'{name}_sum{{model="timed",version="1"}} 9202',
        f'{name}_bucket{{model="timed",version="1",le="100"}} 2',
        f'{name}_bucket{{model="timed",version="1",le="2000"}} 3',
        f'{name}_bucket{{model="timed",version="1",le="+Inf"}} 4',
    ]


async def test_answers_are_counted_by_protocol_and_status(start, server):
    http, grpc = server.answers.of("http"), server.answers.of("grpc")
    http[200] += 2
    http[404] += 1
    grpc["OK"] += 3

    found = families(await scrape(await start(server)))

    assert found["charonia_requests_total"] == [
        'charonia_requests_total{code="200",protocol="http"} 2',
        'charonia_requests_total{code="404",protocol="http"} 1',
        'charonia_requests_total{code="OK",protocol="grpc"} 3',
    ]


async def test_the_process_is_measured(start, server):
    found = families(await scrape(await start(server)))

    names = [
        "process_virtual_memory_bytes", "process_resident_memory_bytes", "process_start_time_seconds",
        "process_cpu_seconds_total", "process_open_fds", "process_max_fds",
    ]  # fmt: skip
    assert [name for name in found if name.startswith("process_")] == names
    for name in names:
        (line,) = found[name]
        assert line.split()[0] == name
        assert float(line.split()[1]) > 0


async def test_metrics_of_models_own(start):
    server = FakeServer()
    registry = server.custom_metrics
    counter = registry.open_family("tokens_total", "tokens", MetricKind.COUNTER)
    registry.open_metric(counter, {"b": "2", "a": "1"}, ()).value = 3.0
    histogram = registry.open_family("sizes", "sizes of\nwhat came", MetricKind.HISTOGRAM)
    registry.open_metric(histogram, {}, (0.5, 10.0)).histogram.observe(7)
    registry.open_family("empty", "nothing", MetricKind.GAUGE)

    text = await scrape(await start(server, allow_cpu_metrics=False, allow_gpu_metrics=False))

    assert text.endswith(
        "# HELP tokens_total tokens\n"
        "# TYPE tokens_total counter\n"
        'tokens_total{a="1",b="2"} 3\n'
        "# HELP sizes sizes of\\nwhat came\n"
        "# TYPE sizes histogram\n"
        "sizes_count 1\n"
        "sizes_sum 7\n"
        'sizes_bucket{le="0.5"} 0\n'
        'sizes_bucket{le="10"} 1\n'
        'sizes_bucket{le="+Inf"} 1\n'
    )


@pytest.mark.parametrize(
    ("groups", "label"),
    [
        ([InstanceGroup(kind=InstanceKind.GPU, count=2, gpus=(1,))], 'gpu_uuid="GPU-b",'),
        ([InstanceGroup(kind=InstanceKind.GPU, gpus=(1,)), InstanceGroup(kind=InstanceKind.CPU)], 'gpu_uuid="GPU-b",'),
        ([InstanceGroup(kind=InstanceKind.GPU, gpus=(0, 1))], ""),
        ([InstanceGroup(kind=InstanceKind.GPU, gpus=(7,))], ""),
        ([InstanceGroup(kind=InstanceKind.CPU)], ""),
    ],
)
async def test_models_on_one_gpu_name_it(start, monkeypatch, groups, label):
    class Gpus:
        uuids: ClassVar = {0: "GPU-a", 1: "GPU-b"}

        def __call__(self):
            return ()

    monkeypatch.setattr(GpuProbe, "find", Gpus)
    server = FakeServer()
    server.add(ModelConfig("m", instance_groups=tuple(groups), metric_tags={"team": "x"}))

    text = await scrape(await start(server, metrics_config=("summary_latencies=true",)))

    assert f'nv_inference_count{{_team="x",{label}model="m",version="1"}} 0' in text
    assert f'nv_inference_queue_summary_us_count{{_team="x",{label}model="m",version="1"}} 0' in text


async def test_latency_counters_can_be_turned_off(start, server):
    server.add(ModelConfig("cached", response_cache=True), statistics=counted(cache_hit=Duration(2, 1), cached=True))

    found = families(await scrape(await start(server, metrics_config=("counter_latencies=False",))))

    assert [name for name in found if name.startswith(("nv_inference", "nv_cache"))] == [
        "nv_inference_request_success",
        "nv_inference_request_failure",
        "nv_inference_count",
        "nv_inference_exec_count",
        "nv_inference_pending_request_count",
    ]
    assert "nv_model_load_duration_secs" in found


async def test_many_models_do_not_hold_the_loop(start):
    server = FakeServer()
    for index in range(200):
        server.add(ModelConfig(f"model{index}"))
    frontend = await start(server)
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counter = asyncio.create_task(count_turns())
    text = await scrape(frontend)
    counter.cancel()

    assert len(families(text)["nv_inference_count"]) == 200
    assert turns >= 200 // 32


# --- HTTP ---


@pytest.mark.parametrize("target", ["/metrics", "/metrics/", "/metrics?name=x"])
async def test_get(start, connect, server, target):
    frontend = await start(server)
    client = await connect(frontend)

    status, headers, body = await client.ask(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    assert status == "HTTP/1.1 200 OK"
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"nv_inference_request_success" in body
    assert "Connection" not in headers


@pytest.mark.parametrize("target", ["/", "/x", "/metrics/x", "/v2"])
async def test_other_paths_are_empty(start, connect, server, target):
    client = await connect(await start(server))

    status, headers, body = await client.ask(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    assert (status, headers["Content-Type"], body) == ("HTTP/1.1 200 OK", "text/plain; charset=utf-8", b"")


@pytest.mark.parametrize("path", ["/metrics", "/x"])
async def test_other_methods_are_refused(start, connect, server, path):
    client = await connect(await start(server))

    status, headers, body = await client.ask(f"POST {path} HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi".encode())

    assert status == "HTTP/1.1 405 Not Allowed"
    assert headers["Content-Type"] == "text/plain"
    assert body == b'{"error":"Method Not Allowed"}'
    assert (await client.ask(b"GET /x HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 200 OK"


async def test_head_has_no_body(start, connect, server):
    client = await connect(await start(server))
    client.writer.write(b"HEAD /metrics HTTP/1.1\r\n\r\n")
    head = await client.reader.readuntil(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 405 Not Allowed\r\n")
    status, _, _ = await client.ask(b"GET /x HTTP/1.1\r\n\r\n")
    assert status == "HTTP/1.1 200 OK"


async def test_connections_are_kept(start, connect, server):
    client = await connect(await start(server))

    for _ in range(3):
        assert (await client.ask(b"GET /metrics HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 200 OK"


async def test_requests_in_a_row_are_answered_in_order(start, connect, server):
    client = await connect(await start(server))
    client.writer.write(b"GET /x HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\nGET /y HTTP/1.1\r\n\r\n")

    lengths = [len((await client.answer())[2]) > 0 for _ in range(3)]

    assert lengths == [False, True, False]


@pytest.mark.parametrize(
    ("head", "version"),
    [("GET /x HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1"), ("GET /x HTTP/1.0\r\n\r\n", "HTTP/1.0")],
)
async def test_connections_that_end(start, connect, server, head, version):
    client = await connect(await start(server))

    status, headers, _ = await client.ask(head.encode())

    assert (status, headers["Connection"]) == (f"{version} 200 OK", "close")
    assert await client.is_closed()


async def test_old_clients_may_keep_their_connection(start, connect, server):
    client = await connect(await start(server))
    request = b"GET /metrics HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"

    for _ in range(2):
        status, headers, _ = await client.ask(request)
        assert (status, headers["Connection"]) == ("HTTP/1.0 200 OK", "keep-alive")


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET /metrics\r\n\r\n",
        b"GET / HTTP/1.1\r\nnonsense\r\n\r\n",
    ],
)
async def test_garbage_is_refused(start, connect, server, garbage):
    client = await connect(await start(server))
    client.writer.write(garbage)

    assert (await client.reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_clients_that_go_away_while_they_wait(start, connect, server):
    frontend = await start(server)
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def endless_statistics(name="", version=-1):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    server.statistics = endless_statistics
    client = await connect(frontend)
    client.writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    await entered.wait()
    client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()
    await asyncio.wait_for(cancelled.wait(), 5)

    assert not frontend._listener.connections


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InternalError("lost the engine"), "HTTP/1.1 503 Service Unavailable"),
        (RuntimeError("a defect"), "HTTP/1.1 500 Internal Server Error"),
    ],
)
async def test_failures_tell_clients_nothing(start, connect, server, error, status):
    async def failing_statistics(name="", version=-1):
        raise error

    server.statistics = failing_statistics
    client = await connect(await start(server))

    assert (await client.ask(b"GET /metrics HTTP/1.1\r\n\r\n"))[::2] == (status, b"")


# --- life ---


async def test_taken_addresses_are_reported(start, server):
    frontend = await start(server)
    second = Frontend(Options(metrics_address="127.0.0.1", metrics_port=port_of(frontend)), server)

    with pytest.raises(UnavailableError) as caught:
        await second.start()

    assert caught.value.message == f"Socket '{frontend.address}' already in use "
    await second.stop(0)


async def test_stopping_closes_idle_connections_and_finishes_answers(start, connect, server):
    frontend = await start(server)
    release, entered = asyncio.Event(), asyncio.Event()
    statistics = server.statistics
    idle = await connect(frontend)
    await idle.ask(b"GET /x HTTP/1.1\r\n\r\n")

    async def slow_statistics(name="", version=-1):
        entered.set()
        await release.wait()
        return await statistics(name, version)

    server.statistics = slow_statistics
    busy = await connect(frontend)
    busy.writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    await entered.wait()
    stopping = asyncio.create_task(frontend.stop(5))
    assert await idle.is_closed()
    release.set()
    status, headers, _ = await busy.answer()
    await stopping

    assert (status, headers["Connection"]) == ("HTTP/1.1 200 OK", "close")
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system says
        await asyncio.open_connection("127.0.0.1", port_of(frontend))


async def test_stopping_does_not_wait_for_ever(start, connect, server):
    frontend = await start(server)
    entered = asyncio.Event()

    async def endless_statistics(name="", version=-1):
        entered.set()
        await asyncio.Event().wait()

    server.statistics = endless_statistics
    client = await connect(frontend)
    client.writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    await entered.wait()
    began = time.monotonic()
    await frontend.stop(0.05)

    assert time.monotonic() - began < 2


async def test_the_loop_is_never_blocked(server):
    with blockbuster_ctx():
        frontend = Frontend(Options(metrics_address="127.0.0.1", metrics_port=0), server)
        await frontend.start()
        client = Client(*await asyncio.open_connection("127.0.0.1", port_of(frontend)))
        assert (await client.ask(b"GET /metrics HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 200 OK"
        client.writer.close()
        await frontend.stop(1)


# --- options ---


@pytest.mark.parametrize(
    ("options", "flag", "message"),
    [
        (
            {"metrics_config": ("foo",)},
            "metrics-config",
            "--metrics-config option format is <setting>=<value>. Got foo",
        ),
        ({"metrics_interval_ms": 0.0}, "metrics-interval-ms", "expected a number > 0, got 0.0"),
        ({"metrics_interval_ms": float("nan")}, "metrics-interval-ms", "expected a number > 0, got nan"),
        ({"metrics_port": 65536}, "metrics-port", "expected a port from 0 to 65535, got 65536"),
    ],
)
def test_malformed_options(options, flag, message):
    with pytest.raises(OptionError) as caught:
        Options(**options)

    assert caught.value.flag == flag
    assert caught.value.message.endswith(message)


def test_quantiles():
    assert Options().quantiles == (0.5, 0.9, 0.95, 0.99, 0.999)
    assert Options(metrics_config=("summary_quantiles=0.5:0.05,x:1,2:0.1,0.25",)).quantiles == (0.5, 0.25)


def test_unknown_settings_are_taken():
    options = Options(metrics_config=("colour=red", "counter_latencies=on"))

    assert (options.counter_latencies, options.summary_latencies) == (True, False)


@pytest.mark.parametrize(
    ("settings", "body"),
    [
        (("repository_index=true",), b'[{"name":"simple","version":"1","state":"READY"}]'),
        ((), b""),
    ],
)
async def test_the_list_of_models_is_served_where_asked_for(start, connect, server, settings, body):
    """A platform reads it where servers ask their clients for tokens."""
    server.index = [IndexEntry("simple", 1, "READY")]
    client = await connect(await start(server, metrics_config=settings))

    status, headers, answer = await client.ask(b"GET /v2/repository/index HTTP/1.1\r\nHost: a\r\n\r\n")

    assert status == "HTTP/1.1 200 OK"
    assert answer == body
    assert headers["Content-Type"] == ("application/json" if body else "text/plain; charset=utf-8")
