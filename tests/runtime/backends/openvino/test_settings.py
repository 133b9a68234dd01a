"""Parameters of OpenVINO models."""

import pytest

from charonia_runtime.backends.openvino.settings import Settings, read_settings
from charonia_runtime.core.errors import InvalidArgumentError


def test_nothing_said() -> None:
    assert read_settings({"ANYTHING": "else"}) == Settings()


@pytest.mark.parametrize(
    ("key", "value", "changed"),
    [
        ("PERFORMANCE_HINT", "throughput", Settings(properties=(("PERFORMANCE_HINT", "THROUGHPUT"),))),
        ("NUM_STREAMS", "numa", Settings(properties=(("NUM_STREAMS", "NUMA"),))),
        ("NUM_STREAMS", "3", Settings(properties=(("NUM_STREAMS", "3"),))),
        ("INFERENCE_NUM_THREADS", "2", Settings(properties=(("INFERENCE_NUM_THREADS", "2"),))),
        ("HINT_BF16", "yes", Settings(properties=(("INFERENCE_PRECISION_HINT", "bf16"),))),
        ("CPU_EXTENSION_PATH", "/x.so", Settings(extension_path="/x.so")),
        ("RESHAPE_IO_LAYERS", "YES", Settings(reshapes_inputs=True)),
        ("RESHAPE_IO_LAYERS", "on", Settings()),
        ("TARGET_DEVICE", "auto:gpu,cpu", Settings(device="AUTO:GPU,CPU")),
    ],
)
def test_each_parameter(key: str, value: str, changed: Settings) -> None:
    assert read_settings({key: value}) == changed


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (
            "PERFORMANCE_HINT",
            "expected the parameter 'PERFORMANCE_HINT' to be LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT, got bad",
        ),
        ("NUM_STREAMS", "expected the parameter 'NUM_STREAMS' to be either AUTO/NUMA/<int_value>, got bad"),
        (
            "COMPILATION_NUM_THREADS",
            "expected the parameter 'COMPILATION_NUM_THREADS' to be a non-negative number, got bad",
        ),
        ("HINT_BF16", "expected the parameter 'HINT_BF16' to be YES, got bad"),
    ],
)
def test_what_cannot_be_read(key: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_settings({key: "Bad"})
    assert caught.value.message == text
