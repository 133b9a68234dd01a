"""`config.pbtxt`: what is accepted, and where mistakes are said to be."""

import pytest

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.protocols.model_config import complete, parse_text

ACCEPTED = {
    "messages": ("dynamic_batching{}", "dynamic_batching : { }", "dynamic_batching < >"),
    "lists": ("input{dims:1 dims:2}", "input{dims:[1,2]}", "input [{dims:[1, 2]}]", "input: [ { dims: 1; dims: 2, } ]"),
    "empty lists": ("", "input []", "input: []", "# nothing but a comment", "# not UTF-8: \udcff"),
    "separators": ('name:"a" backend:"b"', 'name:"a",backend:"b";', 'name:"a" # - 1\nbackend:"b"'),
    "strings": ('name:"abé"', "name:'ab\u00e9'", "name:'a' \"b\" '\\303\\251'", 'name:"\\x61b\\u00e9"'),
    "quotes in strings": ("name:'a\"- 1\"'", 'name:"a\\"- 1\\""'),
    "enums": ("input{data_type:TYPE_FP32}", "input{data_type:11}"),
    "true": tuple(f"input{{optional:{word}}}" for word in ("true", "True", "t", "1")),
    "false": tuple(f"input{{optional:{word}}}" for word in ("false", "False", "f", "0")),
    "integers": ("max_batch_size:8", "max_batch_size:0x8", "max_batch_size:010"),
    "negative": ("max_batch_size:-1", "max_batch_size: - 1", "max_batch_size: -\n\t1", "max_batch_size:-0x1"),
    "floats": tuple(
        f"sequence_batching{{direct{{minimum_slot_utilization:{word}}}}}" for word in ("0.5", ".5", "0.5f", "5e-1")
    ),
    "maps": (
        'metric_tags{key:"a" value:"b"}',
        'metric_tags{value:"b" key:"a"}',
        'metric_tags{key:"a" value:"x"} metric_tags{key:"a" value:"b"}',
        'metric_tags [{key:"a" value:"b"}]',
    ),
}


@pytest.mark.parametrize("spellings", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_spellings_of_the_same(spellings: tuple[str, ...]) -> None:
    documents = [parse_text(text.encode(errors="surrogateescape"), "x").document for text in spellings]
    assert all(document == documents[0] for document in documents)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('backend "python"', '1:9: Expected ":".'),
        ("\n\n  nope: 1", '3:3: Message type "inference.ModelConfig" has no field named "nope".'),
        ("input{dims:[1,]}", "1:15: Couldn't parse integer: ] Remove the comma before ']'"),
        ('input [{name:"a"},]', "1:19: Expected \"{\". Remove the comma before ']'"),
        ('name:"a" name:"b"', '1:15: Message type "inference.ModelConfig" should not have multiple "name" fields.'),
        (
            "dynamic_batching{} dynamic_batching{}",
            '1:36: Message type "inference.ModelConfig" should not have multiple "dynamic_batching" fields.',
        ),
        (
            "version_policy{} version_policy{}",
            '1:32: Message type "inference.ModelConfig" should not have multiple "version_policy" fields.',
        ),
        (
            "dynamic_batching{} sequence_batching{}",
            (
                '1:20: Field "sequence_batching" is specified along with field "dynamic_batching", another member of '
                'oneof "scheduling_choice" for message type "inference.ModelConfig".'
            ),
        ),
        (
            'model_warmup{inputs{key:"a" value{zero_data:true random_data:true}}}',
            (
                '1:50: Field "random_data" is specified along with field "zero_data", another member of oneof '
                '"input_data_type" for message type "inference.ModelWarmup.Input".'
            ),
        ),
        ('name:"a\nb"', "1:6: String missing ending quote: '\"a'"),
        (
            "input{data_type:type_fp32}",
            '1:17: Enum type "inference.DataType" has no value named type_fp32. Did you mean TYPE_FP32?',
        ),
        ('input{optional:"true"}', '1:16: Expected "true" or "false".'),
        ("max_batch_size:2.0", "1:16: Couldn't parse integer: 2.0"),
        ("max_batch_size:99999999999", "1:16: Value out of range: 99999999999"),
        ("name:5", "1:6: Expected string but found: '5' Write text in quotes: \"5\""),
        ("input{", "1:6: Expected \"}\". The '{' at 1:6 is not closed"),
        (
            "\nmax_batchsize: 8",
            '2:1: Message type "inference.ModelConfig" has no field named "max_batchsize". Did you mean "max_batch_size"?',
        ),
        (
            "instance_group{kind: gpu}",
            '1:22: Enum type "inference.ModelInstanceGroup.Kind" has no value named gpu. Did you mean KIND_GPU?',
        ),
        (
            "input{data_type: TYPE_FLOAT32}",
            '1:18: Enum type "inference.DataType" has no value named TYPE_FLOAT32. Did you mean TYPE_FP32?',
        ),
        (
            "model_warmup{inputs{}}optimization{priority: X}",
            (
                '1:46: Enum type "inference.ModelOptimizationPolicy.ModelPriority" has no value named X. Accepted are '
                "PRIORITY_DEFAULT, PRIORITY_MAX, PRIORITY_MIN"
            ),
        ),
        (
            "input [ {\n dims: [ 4 ] # ]\n ]",
            "3:2: Expected identifier or number, got ]. The '{' at 1:9 is not closed before it",
        ),
        (
            '{"name": "m"}',
            '1:1: Expected identifier or number, got {. This looks like JSON; a config.pbtxt is lines such as: name: "m"',
        ),
        (
            'parameters { key: "a" value: "b" }',
            '1:30: Expected "{". Write a parameter as: { key: "…" value: { string_value: "…" } }',
        ),
    ],
)
def test_mistakes_in_text_are_located(text: str, detail: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        parse_text(text.encode(), "/models/m/config.pbtxt")
    assert raised.value.message == f"failed to read text proto from /models/m/config.pbtxt: {detail}"


def test_text_that_is_not_utf8_is_refused_without_breaking_the_log() -> None:
    with pytest.raises(InvalidArgumentError, match="failed to read text proto from x") as raised:
        parse_text(b'name:"\xff"', "x")
    raised.value.message.encode()


def test_numbers_that_stand_for_no_word_are_refused() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        parse_text(b"instance_group{kind:7}", "x")
    assert raised.value.message == (
        "unknown value 7 of 'instance_group.kind', accepted are KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL"
    )


def test_maps_keep_the_order_of_the_file() -> None:
    text = b'parameters{key:"z" value{string_value:"1"}} parameters{key:"a"} parameters{key:"m"}'
    config = complete(parse_text(text, "x"))
    assert list(config.parameters) == list(config.document["parameters"]) == ["z", "a", "m"]


@pytest.mark.parametrize("text", ['name:"' + '\\"' * 300_000, "- " * 300_000, 'name:"' + "'" * 300_000])
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    """A client may send a file of any size; were the time quadratic, this test would run into its limit."""
    with pytest.raises(InvalidArgumentError):
        parse_text(text.encode(), "x")
