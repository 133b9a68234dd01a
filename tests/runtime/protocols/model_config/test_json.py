"""Configurations in load requests: what is accepted, and how mistakes are told."""

import pytest

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.protocols.model_config import parse_json, parse_text


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "Input is a zero-length, empty document: line 1 column 1 (char 0)"),
        ("''", "unexpected character, expected a JSON value: line 1 column 1 (char 0)"),
        ("[]", ": Root element must be a message."),
        ("null", ": Root element must be a message."),
        ("[" * 100_000, None),
        ('{"nope": 1}', 'Message type "inference.ModelConfig" has no field named "nope" at "ModelConfig".'),
        ('{"max_batch_size": 1.5}', None),
        ('{"max_batch_size": true}', None),
        ('{"max_batch_size": 99999999999}', None),
        ('{"max_batch_size": "0x4"}', None),
        ('{"max_batch_size": {}}', None),
        ('{"backend": true}', None),
        ('{"input": "x"}', None),
        ('{"input": {"dims": {}}}', None),
        ('{"parameters": []}', None),
        ('{"parameters": {"a": "b"}}', None),
        ('{"version_policy": 1}', None),
        (
            '{"input": [{"data_type": "FP32"}]}',
            (
                "Failed to parse input field: Failed to parse data_type field: Invalid enum value FP32 for enum type "
                "inference.DataType at ModelConfig.input[0].data_type.. Did you mean TYPE_FP32?"
            ),
        ),
        (
            '{"max_batchsize": 1}',
            (
                'Message type "inference.ModelConfig" has no field named "max_batchsize" at "ModelConfig". Did you mean '
                '"max_batch_size"?'
            ),
        ),
        ('{"dynamic_batching": {}, "sequence_batching": {}}', None),
        ('{"dynamic_batching": {"priority_queue_policy": {"x": {}}}}', None),
        ('{"input": [{"dims": [99999999999999999999]}]}', None),
        ('{"name": "\\ud800"}', None),
    ],
)
def test_mistakes_in_json(text: str, detail: str | None) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        parse_json(text)
    assert raised.value.message.startswith("Invalid config override: ")
    assert detail is None or raised.value.message == f"Invalid config override: {detail}"
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    "text",
    [
        '{"maxBatchSize": 4}',
        '{"max_batch_size": "4"}',
        '{"max_batch_size": 4.0}',
        '{"max_batch_size": 4, "input": null, "dynamic_batching": null}',
        '{"max_batch_size": 4, "output": [null]}',
    ],
)
def test_spellings_of_the_same_json(text: str) -> None:
    assert parse_json(text).document == parse_text(b"max_batch_size:4", "x").document
