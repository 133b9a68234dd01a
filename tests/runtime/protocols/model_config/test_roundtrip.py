"""Whatever can be written in a configuration comes out of it again."""

import json
from math import isfinite
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.protocols.model_config import complete, parse_json, parse_text, to_message


def as_json_number(value: float) -> float | str:
    return value + 0.0 if isfinite(value) else f"{'-' if value < 0 else ''}Infinity"


TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: TEXT,
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_FLOAT: st.floats(width=32, allow_nan=False).map(as_json_number),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False).map(as_json_number),
}


def values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """JSON for one element of a field."""
    if field.enum_type:
        return st.sampled_from([value.name for value in field.enum_type.values])
    return messages(field.message_type) if field.message_type else SCALARS[field.type]


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor) -> dict[str, Any]:
    """JSON for a message of any kind, with at most one member of each choice."""
    document: dict[str, Any] = {}
    chosen: set[str] = set()
    for field in (
        draw(st.lists(st.sampled_from(list(descriptor.fields)), unique_by=lambda f: f.name, max_size=6))
        if descriptor.fields
        else []
    ):
        if field.containing_oneof:
            if field.containing_oneof.name in chosen:
                continue
            chosen.add(field.containing_oneof.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            entry = field.message_type.fields_by_name
            document[field.name] = draw(
                st.dictionaries(values(entry["key"]).map(str), values(entry["value"]), max_size=2)
            )
        elif field.is_repeated:
            document[field.name] = draw(st.lists(values(field), max_size=2))
        else:
            document[field.name] = draw(values(field))
    return document


configs = messages(model_config_pb2.ModelConfig.DESCRIPTOR)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(configs)
def test_text_to_document_to_json(given: dict[str, Any]) -> None:
    message = to_message(given)
    config = parse_text(text_format.MessageToString(message, as_utf8=True).encode(), "x")
    assert to_message(config.document) == message
    again = parse_json(json.dumps(config.document))
    assert again == config
    assert again.document == config.document


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(configs)
def test_completion_is_idempotent_and_loses_nothing(given: dict[str, Any]) -> None:
    config = parse_json(json.dumps(given))
    once = complete(config)
    twice = complete(once)
    assert twice == once
    assert json.dumps(twice.document) == json.dumps(once.document)
    for name in set(config.document) - {"dynamic_batching", "sequence_batching", "optimization"}:
        assert once.document[name] == config.document[name]


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=30) | st.text("name:{}[]\"'-1,;#<> \n", max_size=30))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    refused_or_read(text.encode(errors="surrogatepass"))


@settings(deadline=None)
@given(st.binary(max_size=30))
def test_any_bytes_are_either_read_or_refused(raw: bytes) -> None:
    refused_or_read(raw)


def refused_or_read(raw: bytes) -> None:
    for parse in (lambda: parse_text(raw, "x"), lambda: parse_json(raw)):
        try:
            parse()
        except InvalidArgumentError as error:
            error.message.encode()
