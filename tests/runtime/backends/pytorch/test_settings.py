"""Parameters of PyTorch models."""

import pytest

from charonia_runtime.backends.pytorch.settings import Settings, read_settings
from charonia_runtime.core.errors import InvalidArgumentError


def test_nothing_said() -> None:
    assert read_settings({"ANYTHING": "else"}) == Settings()


@pytest.mark.parametrize(
    ("key", "value", "changed"),
    [
        ("INFERENCE_MODE", "false", Settings(inference_mode=False)),
        ("DISABLE_OPTIMIZED_EXECUTION", "true", Settings(optimized_execution=False)),
        ("ENABLE_WEIGHT_SHARING", "TRUE", Settings(weight_sharing=True)),
        ("ENABLE_CACHE_CLEANING", "on", Settings(cache_cleaning=True)),
        ("CACHE_CLEANING_ENABLED", "1", Settings(cache_cleaning=True)),
        ("DISABLE_CUDNN", "1", Settings(cudnn=False)),
        ("ENABLE_TENSOR_FUSER", "0", Settings(jit_switches={"ENABLE_TENSOR_FUSER": False})),
        ("INTRA_OP_THREAD_COUNT", "3", Settings(intra_op_threads=3)),
        ("INTER_OP_THREAD_COUNT", "2", Settings(inter_op_threads=2)),
    ],
)
def test_each_parameter(key: str, value: str, changed: Settings) -> None:
    assert read_settings({key: value}) == changed


@pytest.mark.parametrize(
    ("key", "text"),
    [("INFERENCE_MODE", "failed to convert 'no' to boolean"),
     ("INTRA_OP_THREAD_COUNT", "failed to convert 'no' to integral number")],
)  # fmt: skip
def test_what_cannot_be_read(key: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_settings({key: "no"})
    assert caught.value.message == text
