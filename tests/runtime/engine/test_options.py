import pytest

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.frontend import OptionError
from charonia_runtime.engine.options import ControlMode, EngineOptions, parse_backend_setting


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("python,shm-default-byte-size=1", ("python", "shm-default-byte-size", "1")),
        ("default-max-batch-size=8", ("", "default-max-batch-size", "8")),
        ("a,b=c,d=e", ("a", "b", "c,d=e")),
        ("b=c,d", ("", "b", "c,d")),
    ],
)
def test_backend_settings_are_split(text, parts):
    assert parse_backend_setting(text) == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", "--backend-config option format is '<backend name>,<setting>=<value>'. Got foo"),
        ("python,foo", "--backend-config option format is '<backend name>,<setting>=<value>'. Got python,foo"),
        (
            ",a=b",
            (
                "No backend specified. --backend-config option format is <backend name>,<setting>=<value> or "
                "<setting>=<value>. Got ,a=b"
            ),
        ),
    ],
)
def test_malformed_backend_settings_are_refused(text, message):
    with pytest.raises(OptionError) as caught:
        EngineOptions(backend_config=(text,))

    assert (caught.value.flag, caught.value.message) == ("backend-config", message)


def test_backends_are_told_global_and_own_settings():
    options = EngineOptions(
        backend_config=("default-max-batch-size=8", "python,a=1", "python,default-max-batch-size=2", "python,a=2"),
        strict_model_config=True,
    )

    assert options.backend_settings.of("python") == {
        "auto-complete-config": "false",
        "backend-directory": "/opt/tritonserver/backends",
        "min-compute-capability": "6.000000",
        "default-max-batch-size": "2",
        "a": "2",
    }
    assert options.backend_settings.of("onnxruntime")["default-max-batch-size"] == "8"


def test_the_control_mode_is_read_in_any_case():
    assert EngineOptions(model_control_mode="EXPLICIT").control_mode is ControlMode.EXPLICIT


@pytest.mark.parametrize(
    ("field", "value", "flag"),
    [
        ("model_control_mode", "some", "model-control-mode"),
        ("repository_poll_secs", -1, "repository-poll-secs"),
        ("model_load_thread_count", 0, "model-load-thread-count"),
        ("exit_timeout_secs", -1, "exit-timeout-secs"),
    ],
)
def test_values_out_of_range_are_refused(field, value, flag):
    with pytest.raises(OptionError) as caught:
        EngineOptions(**{field: value})

    assert caught.value.flag == flag


def test_startup_models_need_explicit_mode():
    with pytest.raises(InvalidArgumentError, match=r"^Use of '--load-model' requires setting") as caught:
        EngineOptions(load_model=("simple",))

    assert not isinstance(caught.value, OptionError)
