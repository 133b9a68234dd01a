import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError
from charonia_runtime.engine.settings import SettingsStore
from charonia_runtime.engine.trace_options import TraceStart, TraceValues
from charonia_runtime.logs import Log, LogOptions

OFF = {
    "trace_level": ("OFF",),
    "trace_rate": ("1000",),
    "trace_count": ("-1",),
    "log_frequency": ("0",),
    "trace_file": ("",),
    "trace_mode": ("triton",),
}
LOG = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


def make_store(trace=TraceStart(), log=None):  # noqa: B008 - frozen
    return SettingsStore(log or Log(stream=io.StringIO()), trace, lambda model: model in {"simple", "other"})


@pytest.fixture
def store():
    return make_store()


@pytest.fixture
def with_file():
    """Settings that can trace."""
    return make_store(TraceStart(file="/tmp/trace"))


async def refused(store, changes, model=""):
    before = await store.trace()
    with pytest.raises(InvalidArgumentError) as caught:
        await store.update_trace(changes, model)
    assert await store.trace() == before
    return caught.value.message


# --- trace ---


async def test_settings_in_triton_mode(store):
    assert await store.trace() == OFF
    assert list(await store.trace()) == list(OFF)


async def test_settings_in_opentelemetry_mode():
    store = make_store(
        TraceStart(mode="opentelemetry", mode_settings={"url": ("http://x",), "resource": ("a=b", "c=d")})
    )

    assert list((await store.trace()).items()) == [
        ("trace_level", ("OFF",)),
        ("trace_rate", ("1000",)),
        ("trace_count", ("-1",)),
        ("trace_mode", ("opentelemetry",)),
        ("url", ("http://x",)),
        ("resource", ("a=b", "c=d")),
    ]


async def test_changes_are_answered_and_kept(store):
    changed = {**OFF, "trace_rate": ("7",), "trace_count": ("3",), "log_frequency": ("2",)}

    assert await store.update_trace({"trace_rate": ["7"], "trace_count": ["3"], "log_frequency": ["2"]}) == changed
    assert await store.trace() == changed
    assert await store.update_trace({}) == changed


async def test_clearing_returns_to_the_command_line():
    store = make_store(TraceStart(TraceValues(rate=5)))
    await store.update_trace({"trace_rate": ["7"]})

    assert (await store.update_trace({"trace_rate": None}))["trace_rate"] == ("5",)


async def test_models_follow_what_they_do_not_set(store):
    await store.update_trace({"trace_rate": ["9"]}, "simple")
    await store.update_trace({"trace_count": ["4"], "trace_rate": ["2"]})

    assert await store.trace() == {**OFF, "trace_rate": ("2",), "trace_count": ("4",)}
    assert await store.trace("other") == await store.trace()
    assert await store.trace("simple") == {**OFF, "trace_rate": ("9",), "trace_count": ("4",)}
    assert await store.update_trace({"trace_rate": None}, "simple") == await store.trace()


async def test_clearing_everything_forgets_the_model(store):
    await store.update_trace({"trace_rate": ["9"]}, "simple")
    await store.update_trace({"trace_rate": None}, "simple")

    assert store._for_model == {}


async def test_values_for_the_tracer(with_file):
    await with_file.update_trace({"trace_level": ["TENSORS", "TIMESTAMPS"]}, "simple")

    assert with_file.trace_values("simple") == TraceValues(("TIMESTAMPS", "TENSORS"))
    assert with_file.trace_values() == TraceValues()


@pytest.mark.parametrize(
    "call", [lambda s: s.trace("nothing"), lambda s: s.update_trace({"trace_rate": ["x"]}, "nothing")]
)
async def test_models_that_do_not_serve(store, call):
    with pytest.raises(InvalidArgumentError, match=r"^Request for unknown model : nothing$"):
        await call(store)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0", "0"),
        ("-5", "4294967291"),
        (" 12abc", "12"),
        ("+7", "7"),
        ("2147483647", "2147483647"),
        ("00000000000009", "9"),
    ],
)
async def test_numbers_are_read_as_c_reads_them(store, text, shown):
    assert (await store.update_trace({"trace_rate": [text]}))["trace_rate"] == (shown,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trace_rate": ["abc"]}, "Unable to parse 'trace_rate', got: abc"),
        ({"trace_rate": [""]}, "Unable to parse 'trace_rate', got: "),
        ({"trace_rate": ["٣"]}, "Unable to parse 'trace_rate', got: ٣"),
        (
            {"trace_rate": ["3000000000"]},
            "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 3000000000",
        ),
        (
            {"trace_rate": ["9" * 9999]},
            f"Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: {'9' * 9999}",
        ),
        (
            {"trace_count": ["2147483648"]},
            "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: 2147483648",
        ),
        ({"trace_count": ["-2"]}, "Unable to parse 'trace_count'. Expecting value >= -1, got: -2"),
        ({"log_frequency": ["z"]}, "Unable to parse 'log_frequency', got: z"),
        ({"trace_rate": ["8", "9"]}, "expect only 1 value for 'trace_rate'"),
        ({"trace_level": ["OFF", "TENSORS"]}, "Expect only one trace level 'OFF' is specified"),
        ({"trace_level": ["LOUD", "OFF"]}, "Expect only one trace level 'OFF' is specified"),
        ({"trace_level": ["TIMESTAMPS"]}, "Attempting to set invalid trace setting :trace file name is not given"),
        (
            {"trace_level": ["TIMESTAMPS"], "trace_rate": ["0"]},
            "Attempting to set invalid trace setting :sample rate must be non-zero",
        ),
        ({"trace_rate": ["5"], "trace_count": ["-9"]}, "Unable to parse 'trace_count'. Expecting value >= -1, got: -9"),
    ],
)
async def test_refused_changes_change_nothing(store, changes, message):
    assert await refused(store, changes) == message
    assert await refused(store, changes, "simple") == message
    assert await store.trace("simple") == OFF


async def test_the_file_is_fixed(store):
    for texts in (["/tmp/x"], None):
        with pytest.raises(UnsupportedError) as caught:
            await store.update_trace({"trace_rate": ["5"], "trace_file": texts})
        assert caught.value.message == "trace file location can not be updated through network protocol"
    assert await store.trace() == OFF


@pytest.mark.parametrize(
    "changes", [{"trace_level": []}, {"trace_level": ["LOUD"]}, {"colour": ["red"], "trace_mode": ["x"]}]
)
async def test_what_is_not_known_changes_nothing(store, changes):
    assert await store.update_trace(changes) == OFF


async def test_levels_go_on_and_off(with_file):
    assert (await with_file.update_trace({"trace_level": ["TENSORS", "LOUD"]}))["trace_level"] == ("TENSORS",)
    assert (await with_file.update_trace({"trace_level": ["OFF"]}))["trace_level"] == ("OFF",)


async def test_rate_zero_with_a_level_on(with_file):
    await with_file.update_trace({"trace_level": ["TIMESTAMPS"]})

    assert await refused(with_file, {"trace_rate": ["0"]}) == (
        "Attempting to set invalid trace setting :sample rate must be non-zero"
    )


async def test_opentelemetry_needs_neither_file_nor_rate():
    store = make_store(TraceStart(mode="opentelemetry"))

    settings = await store.update_trace({"trace_level": ["TIMESTAMPS"], "trace_rate": ["0"]})

    assert (settings["trace_level"], settings["trace_rate"]) == (("TIMESTAMPS",), ("0",))


@given(
    first=st.dictionaries(st.sampled_from(["trace_rate", "trace_count", "log_frequency"]), st.integers(0, 99)),
    second=st.dictionaries(st.sampled_from(["trace_rate", "trace_count", "log_frequency"]), st.integers(0, 99)),
)
async def test_clearing_what_was_set_restores_everything(first, second):
    store = make_store()
    await store.update_trace({name: [str(value)] for name, value in first.items()})
    before = await store.trace("simple")
    await store.update_trace({name: [str(value)] for name, value in second.items()}, "simple")
    assert await store.trace("simple") == {**before, **{name: (str(value),) for name, value in second.items()}}

    assert await store.update_trace(dict.fromkeys(second), "simple") == before
    assert await store.update_trace(dict.fromkeys(first)) == OFF


# --- log ---


async def test_log_settings(store):
    assert list((await store.log()).items()) == list(LOG.items())


async def test_log_settings_of_the_command_line(tmp_path):
    options = LogOptions("2", log_warning=False, log_format="ISO8601", log_file=str(tmp_path / "log"))
    log = Log(options)
    assert await make_store(log=log).log() == {
        "log_file": options.log_file,
        "log_info": True,
        "log_warning": False,
        "log_error": True,
        "log_verbose_level": 2,
        "log_format": "ISO8601",
    }
    log.close()


async def test_log_changes_act_on_the_log():
    log = Log(stream=io.StringIO())
    store = make_store(log=log)
    changes = {
        "log_info": False,
        "log_warning": False,
        "log_error": False,
        "log_verbose_level": 3,
        "log_format": "ISO8601",
    }

    assert await store.update_log(changes) == {**LOG, **changes}
    assert (log.switches.info, log.switches.verbose_level, log.switches.line_format) == (False, 3, "ISO8601")


@pytest.mark.parametrize(("level", "shown"), [(0, 0), (3, 3), (2**31 - 1, 2**31 - 1), (2**31, 0), (2**32 + 1, 1)])
async def test_verbose_levels_wrap_as_in_c(store, level, shown):
    assert (await store.update_log({"log_verbose_level": level}))["log_verbose_level"] == shown


async def test_an_unknown_log_format_leaves_the_earlier_changes(store):
    with pytest.raises(InvalidArgumentError, match=r"^invalid argument for log_format, got: fancy$"):
        await store.update_log({"log_format": "fancy", "log_info": False})

    assert await store.log() == {**LOG, "log_info": False}


async def test_the_log_file_is_fixed(store):
    with pytest.raises(UnsupportedError, match=r"^log file location can not be updated through network protocol$"):
        await store.update_log({"log_file": "x", "log_info": False})

    assert await store.log() == LOG


async def test_unknown_log_settings_change_nothing(store):
    assert await store.update_log({"colour": "red"}) == LOG
