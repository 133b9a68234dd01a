"""Configurations in JSON: the `config` parameter of load requests, and documents on their way to protobuf."""

from collections.abc import Mapping
from typing import Any

import orjson
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from tritonclient.grpc import model_config_pb2

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.protocols.model_config.document import Document, is_map, sparse_document
from charonia_runtime.protocols.model_config.hints import hint_of_names
from charonia_runtime.protocols.model_config.text_form import ENTRY_LIST_CONFIG

_BOOLEANS = {"true": True, "false": False}


def parse(text: str | bytes) -> Document:
    """
    What `text` sets, by protobuf's rules for JSON and with the liberties that Triton allows.

    These are: enum names in any case, booleans as strings, one value where a list is expected, nulls in lists. Raises
    InvalidArgumentError naming the field.
    """
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidArgumentError(f"Invalid config override: {error}") from None
    if not isinstance(given, dict):
        raise InvalidArgumentError("Invalid config override: : Root element must be a message.")
    config = model_config_pb2.ModelConfig()
    try:
        json_format.ParseDict(_strict(config.DESCRIPTOR, given), config)
    except json_format.ParseError as error:
        cause = str(error).partition("\n")[0]  # a list of all the fields there are follows
        raise InvalidArgumentError(f"Invalid config override: {cause}{hint_of_names(cause)}") from None
    return sparse_document(ENTRY_LIST_CONFIG.FromString(config.SerializeToString(deterministic=True)))


def message_of(document: Mapping[str, Any]) -> Any:
    """The protobuf `ModelConfig` that a document describes."""
    return json_format.ParseDict(document, model_config_pb2.ModelConfig())


def _strict(descriptor: Descriptor, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` in the form that the library accepts; what it would refuse anyway is left to it."""
    fields = {field.json_name: field for field in descriptor.fields} | dict(descriptor.fields_by_name)
    return {name: _strict_value(fields[name], value) if name in fields else value for name, value in given.items()}


def _strict_value(field: FieldDescriptor, value: Any) -> Any:
    if is_map(field):
        if not isinstance(value, dict):
            return value
        values = field.message_type.fields_by_name["value"]
        return {key: _strict_item(values, item) for key, item in value.items()}
    if not field.is_repeated or value is None:
        return _strict_item(field, value)
    items = value if isinstance(value, list) else [value]
    return [_strict_item(field, item) for item in items if item is not None]


def _strict_item(field: FieldDescriptor, value: Any) -> Any:
    if isinstance(value, dict):
        return _strict(field.message_type, value) if field.message_type else value
    if not isinstance(value, str):
        return value
    if field.enum_type:
        return value.upper().replace("-", "_")
    if field.type == FieldDescriptor.TYPE_BOOL:
        return _BOOLEANS.get(value, value)
    return value
