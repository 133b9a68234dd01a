"""Flags follow tritonserver's grammar and say what is wrong in its words."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.frontend import OptionError, option
from charonia_runtime.flags import Flags, Group, UsageError


@dataclass(frozen=True)
class Listener:
    enabled: bool = option(True, "Listen for requests.", flag="allow-http")
    http_port: int = option(8000, "Port to listen on.")
    http_address: str = option("0.0.0.0", "Address to bind.")
    interval_ms: float = option(2000.0, "Sampling period.")


@dataclass(frozen=True)
class Repository:
    repositories: tuple[str, ...] = option((), "A folder of models.", flag="model-repository", aliases=("model-store",))
    strict: bool = option(False, "Trust configurations only.", flag="disable-auto-complete-config", switch=True)
    mode: str = option("none", "How models are controlled.", flag="model-control-mode")

    def __post_init__(self) -> None:
        if self.mode not in {"none", "poll"}:
            raise OptionError("model-control-mode", "invalid argument for --model-control-mode")


FLAGS = Flags([Group("HTTP", Listener), Group("Model repository", Repository)])


def test_defaults_without_arguments():
    parsed = FLAGS.parse([])

    assert parsed.get(Listener) == Listener()
    assert parsed.get(Repository) == Repository()
    assert parsed.given == ()


def test_both_spellings_of_a_value():
    parsed = FLAGS.parse(["--http-port=9", "--http-address", "::1"])

    assert parsed.get(Listener) == Listener(http_port=9, http_address="::1")
    assert parsed.given == ("http-port", "http-address")


def test_last_one_wins():
    assert FLAGS.parse(["--http-port=9", "--http-port=10"]).get(Listener).http_port == 10


def test_repeatable_flags_collect_under_all_their_names():
    parsed = FLAGS.parse(["--model-repository=/a", "--model-store", "/b"])

    assert parsed.get(Repository).repositories == ("/a", "/b")


def test_an_unambiguous_prefix_is_enough():
    assert FLAGS.parse(["--http-p", "7"]).get(Listener).http_port == 7


def test_a_switch_takes_no_value():
    assert FLAGS.parse(["--disable-auto-complete-config", "--http-port=1"]).get(Repository).strict is True


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("ON", True), ("1", True), ("False", False), ("off", False), ("0", False)]
)
def test_booleans(text, value):
    assert FLAGS.parse([f"--allow-http={text}"]).get(Listener).enabled is value


@pytest.mark.parametrize(
    ("arguments", "flag", "message"),
    [
        (["--http-port=abc"], "http-port", "Invalid option value. Got abc"),
        (["--http-port=1.4"], "http-port", "Invalid option value. Got 1.4"),
        (["--http-port="], "http-port", "Invalid option value. Got "),
        (["--http-port=99999999999999999999"], "http-port", "Provided option value is out of bound. Got 99999999999999999999"),
        (["--interval-ms=x"], "interval-ms", "Invalid option value. Got x"),
        (["--allow-http=maybe"], "allow-http", "invalid value for bool option: maybe"),
        (["--http-port"], "http-port", "option '--http-port' requires an argument"),
        (["--disable-auto-complete-config=1"], "disable-auto-complete-config", "option '--disable-auto-complete-config' doesn't allow an argument"),
        (["--model-control-mode=x"], "model-control-mode", "invalid argument for --model-control-mode"),
        (["models"], "", "Unexpected argument: models"),
        (["--http=1"], "", "option '--http=1' is ambiguous; possibilities: --http-address --http-port"),
        (["--model-repositry=/a"], "", "unrecognized option '--model-repositry=/a'; did you mean '--model-repository'?"),
        (["--zzz"], "", "unrecognized option '--zzz'"),
    ],
)  # fmt: skip
def test_what_bad_arguments_get(arguments, flag, message):
    with pytest.raises(UsageError) as caught:
        FLAGS.parse(arguments)

    assert (caught.value.flag, caught.value.message) == (flag, message)


def test_help_names_every_flag_with_its_type_and_default():
    text = FLAGS.help()

    assert "  --http-port <integer>\n        Port to listen on. Default: 8000." in text
    assert "  --model-repository, --model-store <string>" in text
    assert "  --disable-auto-complete-config\n" in text
    assert "HTTP:" in text


@given(st.lists(st.text()))
def test_any_arguments_are_read_or_refused(arguments):
    """Nothing but UsageError ever comes out of a command line."""
    try:
        FLAGS.parse(arguments)
    except UsageError as error:
        assert error.message
