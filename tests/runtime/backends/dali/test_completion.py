"""What a pipeline's description tells of a configuration, and what contradicts it; nothing of DALI is needed for it."""

from typing import Any

import pytest

from charonia_runtime.backends.dali.completion import check_pipeline, complete_from_pipeline, wants_no_batches
from charonia_runtime.backends.dali.description import Description, PipelineTensor
from charonia_runtime.backends.dali.settings import BackendSettings, Settings, read_backend_settings, read_settings
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import Direct, DynamicBatching
from tests.support.configs import a_config, a_tensor

UINT8, FP32 = DataType.UINT8, DataType.FP32
PIPELINE = Description(
    16, (PipelineTensor("PICTURE", UINT8, 1),), (PipelineTensor("decoded", FP32, 3), PipelineTensor("size", FP32, 0))
)


def blank(**changes: Any) -> ModelConfig:
    return a_config("m", **({"backend": "dali", "max_batch_size": 0, "inputs": (), "outputs": ()} | changes))


def whole(**changes: Any) -> ModelConfig:
    outputs = (a_tensor("OUT", FP32, -1, -1, 3), a_tensor("SIZE", FP32, 1))
    return blank(**(
        {"max_batch_size": 8, "inputs": (a_tensor("PICTURE", UINT8, -1),), "outputs": outputs} | changes
    ))  # fmt: skip


def test_everything() -> None:
    completed = complete_from_pipeline(blank(), PIPELINE, batched=True)
    assert (completed.max_batch_size, completed.scheduling) == (16, DynamicBatching())
    assert completed.inputs == (a_tensor("PICTURE", UINT8, -1, allow_ragged=True),)
    assert completed.outputs == (a_tensor("decoded", FP32, -1, -1, -1), a_tensor("size", FP32, 1))


def test_what_is_configured_stays() -> None:
    completed = complete_from_pipeline(whole(), PIPELINE, batched=True)
    assert (completed.max_batch_size, completed.inputs, completed.outputs) == (8, whole().inputs, whole().outputs)


def test_without_batches() -> None:
    completed = complete_from_pipeline(blank(), PIPELINE, batched=False)
    assert (completed.max_batch_size, completed.scheduling) == (0, Direct())
    assert completed.inputs == (a_tensor("PICTURE", UINT8, -1, -1),)
    assert completed.outputs == (a_tensor("decoded", FP32, -1, -1, -1, -1), a_tensor("size", FP32, -1))


@pytest.mark.parametrize(
    ("text", "wants"),
    [
        (b"", False),
        (b"max_batch_size: 0", True),
        (b'name: "m"\n  max_batch_size : 0  # no batches\n', True),
        (b"max_batch_size: 8", False),
        (b"max_batch_size: 08", False),
        (b"# max_batch_size: 0", False),
    ],
)
def test_a_zero_that_is_written(text: bytes, wants: bool) -> None:
    assert wants_no_batches(text) is wants


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            whole(inputs=(a_tensor("PICTURE", UINT8, -1), a_tensor("OTHER", UINT8, -1))),
            "Configuration file contains config for OTHER but such input is not present in the pipeline.",
        ),
        (
            whole(inputs=(a_tensor("PICTURE", FP32, -1),)),
            (
                'Mismatch of data_type config for "PICTURE".\nData type defined in config: TYPE_FP32\n'
                "Data type defined in pipeline: TYPE_UINT8"
            ),
        ),
        (
            whole(inputs=(a_tensor("PICTURE", UINT8, -1, 3),)),
            (
                'Mismatch in number of dimensions for "PICTURE"\nNumber of dimensions defined in config: 2\n'
                "Number of dimensions defined in pipeline: 1"
            ),
        ),
        (
            whole(outputs=(a_tensor("OUT", FP32, -1, -1, 3),)),
            (
                "The number of outputs specified in the DALI pipeline and the configuration file do not match.\n"
                "Model config outputs: 1\nPipeline outputs: 2"
            ),
        ),
    ],
)
def test_contradictions(given: ModelConfig, text: str) -> None:
    for check in (check_pipeline, lambda *both: complete_from_pipeline(*both, batched=True)):
        with pytest.raises(InvalidArgumentError) as caught:
            check(given, PIPELINE)
        assert caught.value.message == text


def test_types_that_nobody_tells() -> None:
    with pytest.raises(InvalidArgumentError, match=r'^Missing data_type config for "X"$'):
        complete_from_pipeline(blank(), Description(1, (PipelineTensor("X"),), PIPELINE.outputs), batched=True)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (whole(inputs=()), 'Missing config for "PICTURE" input.'),
        (
            whole(outputs=(a_tensor("OUT", FP32, -1, -1, 3), a_tensor("SIZE", FP32, 1, reshape=()))),
            "model 'm': the dali backend takes samples as they are, 'SIZE' must have no reshape",
        ),
    ],
)
def test_configurations_that_cannot_be_served(given: ModelConfig, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check_pipeline(given, PIPELINE)
    assert caught.value.message == text


def test_strings_are_none_of_dali_s() -> None:
    open_pipeline = Description(1, (PipelineTensor("X"),), (PipelineTensor("Y"),))
    given = blank(inputs=(a_tensor("X", DataType.BYTES, 1),), outputs=(a_tensor("Y", FP32, 1),))
    with pytest.raises(InvalidArgumentError, match=r"^data_type TYPE_STRING of 'X' of model 'm' is none of DALI's$"):
        check_pipeline(given, open_pipeline)


def test_settings() -> None:
    assert read_settings({}, "m") == Settings()
    assert read_settings({"num_threads": "3", "split_along_outer_axis": "A:B"}, "m") == Settings(3, frozenset("AB"))
    assert read_backend_settings({"release_after_unload": "true", "plugin_libs": "a.so:b.so"}) == BackendSettings(
        release_after_unload=True, plugin_libraries=("a.so", "b.so")
    )
    with pytest.raises(InvalidArgumentError, match="must not be negative"):
        read_settings({"num_threads": "-1"}, "m")
