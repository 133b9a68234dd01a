import pytest

from charonia_runtime.core.frontend import OptionError
from charonia_runtime.engine.trace_options import TraceOptions, TraceStart, TraceValues


def start(*config, **deprecated):
    return TraceOptions(trace_config=config, **deprecated).start


def test_nothing_is_traced_unless_asked_for():
    assert start() == TraceStart(TraceValues((), 1000, -1, 0), "triton", "", {})


def test_settings_of_the_triton_mode():
    assert start(
        "level=TENSORS", "level=TIMESTAMPS", "rate=7", "count=3", "triton,file=/tmp/trace", "triton,log-frequency=2"
    ) == TraceStart(TraceValues(("TIMESTAMPS", "TENSORS"), 7, 3, 2), "triton", "/tmp/trace", {})


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (["OFF"], ()), (["false"], ()), (["OFF", "TENSORS"], ("TENSORS",)), (["min", "max"], ("TIMESTAMPS",)),
        (["on"], ("TIMESTAMPS",)), (["True"], ("TIMESTAMPS",)), (["timestamps"], ("TIMESTAMPS",)),
    ],
)  # fmt: skip
def test_levels(levels, expected):
    assert start(*(f"level={level}" for level in levels)).values.levels == expected


def test_settings_of_the_opentelemetry_mode():
    began = start(
        "mode=OPENTELEMETRY",
        "opentelemetry,url=http://x/?a=b",
        "opentelemetry,resource=a=b",
        "opentelemetry,resource=c=d",
        "opentelemetry,bsp_max_queue_size=10",
        "triton,bar=y",
    )

    assert began.mode == "opentelemetry"
    assert began.mode_settings == {
        "url": ("http://x/?a=b",),
        "resource": ("a=b", "c=d"),
        "bsp_max_queue_size": ("10",),
        "bsp_max_export_batch_size": ("512",),
        "bsp_schedule_delay": ("5000",),
    }
    assert list(began.mode_settings)[:3] == ["url", "resource", "bsp_max_queue_size"]


def test_the_environment_says_what_the_flags_leave_open():
    for wrong in ("x", "0", "-1", "1e3", "9" * 30):
        with pytest.raises(OptionError, match="expected an integer from 1 to 2147483647"):
            TraceOptions(trace_config=("mode=opentelemetry", f"opentelemetry,bsp_schedule_delay={wrong}")).start  # noqa: B018
        with pytest.raises(OptionError, match="OTEL_BSP_SCHEDULE_DELAY: Invalid option value"):
            TraceOptions(trace_config=("mode=opentelemetry",), span_batches={"bsp_schedule_delay": wrong}).start  # noqa: B018
    said = {"bsp_max_queue_size": "7", "bsp_schedule_delay": "100"}
    options = TraceOptions(
        trace_config=("mode=opentelemetry", "opentelemetry,bsp_max_queue_size=10"), span_batches=said
    )
    assert options.start.mode_settings == {
        "bsp_max_queue_size": ("10",),
        "bsp_schedule_delay": ("100",),
        "bsp_max_export_batch_size": ("512",),
    }


def test_settings_that_triton_does_not_know_are_taken():
    assert start("foo=x", "triton,bar=y", "triton,mode=z").mode_settings == {"bar": ("y",), "mode": ("z",)}


@pytest.mark.parametrize(
    ("config", "values"),
    [
        ("triton,log-frequency=1,rate=1", TraceValues(log_frequency=1)),
        ("triton,log-frequency=1x", TraceValues(log_frequency=1)),
        ("triton,log-frequency= 1 ", TraceValues(log_frequency=1)),
        ("rate=5.7", TraceValues(rate=5)),
    ],
)
def test_text_behind_a_number_is_passed_over_with_a_warning(config, values):
    """Triton 2.51 starts with each of these and shows these values."""
    options = TraceOptions(trace_config=(config,))
    assert options.start.values == values
    (warning,) = options.warnings
    assert f"'--trace-config {config}' is read as" in warning


def test_the_last_value_wins_and_negative_rates_wrap():
    assert start("rate=5", "rate=-1", "count=-5").values == TraceValues((), 4294967295, -5, 0)


def test_deprecated_flags_work():
    options = TraceOptions(
        trace_file="/tmp/x", trace_level=("min",), trace_rate="4", trace_count="0", trace_log_frequency="3"
    )

    assert options.start == TraceStart(TraceValues(("TIMESTAMPS",), 4, 0, 3), "triton", "/tmp/x", {})
    assert options.warnings == tuple(
        f"Warning: '--{flag}' has been deprecated and will be removed in future releases. "
        f"Please use '--trace-config {replacement} instead."
        for flag, replacement in (
            ("trace-file", "triton,file=<filepath>"),
            ("trace-level", "level=<OFF|TIMESTAMPS|TENSORS>"),
            ("trace-rate", "rate=<rate value>"),
            ("trace-count", "count=<count value>"),
            ("trace-log-frequency", "triton,log-frequency=<log frequency value>"),
        )
    )


def test_deprecated_flags_give_way():
    options = TraceOptions(
        trace_config=("rate=7", "triton,log-frequency=8"), trace_rate="4", trace_log_frequency="3", trace_count="2"
    )

    assert options.start.values == TraceValues((), 7, 2, 8)
    assert options.warnings[3:] == (
        "Warning: Overriding deprecated '--trace-rate' in favor of provided rate value in --trace-config!",
        "Warning: Overriding deprecated '--trace-log-frequency' in favor of provided log-frequency in --trace-config!",
    )


MODE = 'invalid value for trace mode option: foo. Available options are "triton" and "opentelemetry"'


@pytest.mark.parametrize(
    ("config", "flag", "message"),
    [
        ("bad", "trace-config", "--trace-config option format is '<trace mode>,<setting>=<value>'. Got bad"),
        ("foo,x=1", "trace-config", MODE),
        ("mode=foo", "trace-config mode", MODE),
        ("level=foo", "trace-config level", "invalid value for trace level option: foo"),
        ("rate=abc", "trace-config rate", "Invalid option value. Got abc"),
        ("rate=", "trace-config rate", "Invalid option value. Got "),
        ("count=x1", "trace-config count", "Invalid option value. Got x1"),
        ("count=- 1", "trace-config count", "Invalid option value. Got - 1"),
        (f"count={'9' * 5000}", "trace-config count", f"Provided option value is out of bound. Got {'9' * 5000}"),
        ("rate=99999999999", "trace-config rate", "Provided option value is out of bound. Got 99999999999"),
        ("triton,log-frequency=zz", "trace-config triton,log-frequency", "Invalid option value. Got zz"),
        (
            ",x=1",
            "trace-config",
            (
                "No trace mode specified. --trace-config option format is <trace mode>,<setting>=<value> or "
                "<setting>=<value>. Got ,x=1"
            ),
        ),
    ],
)
def test_malformed_settings(config, flag, message):
    with pytest.raises(OptionError) as caught:
        TraceOptions(trace_config=(config,))

    assert (caught.value.flag, caught.value.message) == (flag, message)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("trace_level", ("foo",), "invalid value for trace level option: foo"),
        ("trace_rate", "abc", "Invalid option value. Got abc"),
        ("trace_log_frequency", "e3", "Invalid option value. Got e3"),
    ],
)
def test_malformed_deprecated_flags(field, value, message):
    with pytest.raises(OptionError) as caught:
        TraceOptions(**{field: value})

    assert (caught.value.flag, caught.value.message) == (field.replace("_", "-"), message)
