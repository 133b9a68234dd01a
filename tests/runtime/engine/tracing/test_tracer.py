"""The tracer with the real settings, and what it does to a request on its way."""

import pytest

from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.trace_options import TraceOptions, TraceStart, TraceValues
from charonia_runtime.engine.tracing.files import FileTraces
from charonia_runtime.engine.tracing.tracer import Tracer, make_destination
from charonia_runtime.logs import Log, LogOptions
from tests.support.traces import KeptTraces

FILE = TraceStart(TraceValues(rate=2), file="/nowhere/trace.json")


@pytest.fixture
def kept():
    return KeptTraces()


@pytest.fixture
def tracer(kept):
    return Tracer(kept)


@pytest.fixture
def settings(tracer):
    return SettingsStore(Log(LogOptions()), FILE, lambda model: True, tracer)


def sampled(tracer, model="m", count=6):
    return [tracer.sample(model, None) is not None for _ in range(count)]


async def test_is_active_only_while_something_is_traced(tracer, settings):
    assert not tracer.active
    await settings.update_trace({"trace_level": ["TIMESTAMPS"]}, "m")
    assert tracer.active
    await settings.update_trace({"trace_level": None}, "m")
    assert not tracer.active


async def test_models_share_a_counter_unless_they_have_their_own_settings(tracer, settings):
    await settings.update_trace({"trace_level": ["TIMESTAMPS"]})
    await settings.update_trace({"trace_rate": ["3"]}, "own")

    assert [tracer.sample(model, None) is not None for model in ("a", "b", "a")] == [False, True, False]
    assert sampled(tracer, "own") == [False, False, True] * 2


async def test_the_count_is_shown_as_it_shrinks(tracer, settings):
    await settings.update_trace({"trace_level": ["TIMESTAMPS"], "trace_rate": ["1"], "trace_count": ["5"]})
    sampled(tracer, count=2)

    assert (await settings.trace())["trace_count"] == ("3",)
    assert sampled(tracer) == [True] * 3 + [False] * 3
    await settings.update_trace({"trace_count": ["1"]})
    assert sampled(tracer, count=2) == [True, False]


async def test_changed_settings_end_what_was_collected_under_the_old_ones(tracer, settings, kept):
    await settings.update_trace({"trace_level": ["TIMESTAMPS"]})
    old = settings.sampler("m")
    await settings.update_trace({"trace_rate": ["5"]})

    assert old in kept.dropped
    assert settings.sampler("m") is not old


async def test_a_clients_trace_is_joined_where_the_destination_can(tracer, settings, kept):
    await settings.update_trace({"trace_level": ["TIMESTAMPS"], "trace_rate": ["1000"]})
    assert tracer.sample("m", "00-a-b-01") is not None
    kept.joins_traces = False
    assert tracer.sample("m", "00-a-b-01") is None


def test_without_a_file_nothing_is_ever_traced():
    destination = make_destination(TraceOptions(trace_config=("level=TIMESTAMPS", "rate=1")).start)
    tracer = Tracer(destination)
    SettingsStore(Log(LogOptions()), TraceStart(TraceValues(("TIMESTAMPS",), 1)), lambda model: True, tracer)

    assert (destination, tracer.active, tracer.sample("m", None)) == (None, False, None)


def test_destinations(tmp_path):
    file = make_destination(TraceStart(file=str(tmp_path / "trace.json")))
    assert isinstance(file, FileTraces)
    Tracer(file).close()
