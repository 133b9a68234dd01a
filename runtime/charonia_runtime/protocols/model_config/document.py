"""
Configuration documents: JSON-able dictionaries with exactly the members, and the order, that Triton prints.

Members lie in the order in which the protobuf file declares them; scalars, lists and maps are there even when they
are empty, messages only when they were set.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from tritonclient.grpc import model_config_pb2

Document = dict[str, Any]

_PRINTED_AS_TEXT = frozenset({
    "inference.ModelSequenceBatching.InitialState.dims",
    "inference.ModelOptimizationPolicy.Cuda.GraphSpec.Shape.dim",
    "inference.ModelInstanceGroup.SecondaryDevice.device_id",
})  # fmt: skip
"""The 64-bit fields that Triton leaves as protobuf prints them; all others are numbers."""

_OMITTED_WHEN_DEFAULT = frozenset({"inference.ModelEnsembling.max_inflight_requests"})
"""Fields newer than the servers whose answers clients compare with ours."""

_LARGEST_PLAIN_NUMBER = 1e15
"""Whole floats up to here are printed without a fraction."""


def printed(sparse: Mapping[str, Any]) -> Document:
    """A complete, ordered copy of a configuration in which defaults may be missing."""
    return _printed(model_config_pb2.ModelConfig.DESCRIPTOR, sparse)


def sparse_document(message: Message) -> Document:
    """What is set in a message of `text_form.ENTRY_LIST_CONFIG`, whose maps are lists of entries."""
    return {field.name: _sparse_value(field, value) for field, value in message.ListFields()}


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field of the real messages is a map."""
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _printed(descriptor: Descriptor, sparse: Mapping[str, Any]) -> Document:
    document = {}
    for field in _fields_in_print_order(descriptor):
        value = sparse.get(field.name)
        if value is not None:
            document[field.name] = _printed_value(field, value)
        elif not field.has_presence and field.full_name not in _OMITTED_WHEN_DEFAULT:
            document[field.name] = _default(field)
    return document


def _fields_in_print_order(descriptor: Descriptor) -> Iterator[FieldDescriptor]:
    """Declaration order, except that the scalar members of a `oneof` come last."""
    choices = [field for field in descriptor.fields if field.containing_oneof and not field.message_type]
    yield from (field for field in descriptor.fields if field not in choices)
    yield from choices


def _default(field: FieldDescriptor) -> Any:
    if is_map(field):
        return {}
    if field.is_repeated:
        return []
    if field.enum_type:
        return field.enum_type.values_by_number[0].name
    return _printed_item(field, field.default_value)


def _printed_value(field: FieldDescriptor, value: Any) -> Any:
    if is_map(field):
        values = field.message_type.fields_by_name["value"]
        return {str(key): _printed_item(values, item) for key, item in value.items()}
    if field.is_repeated:
        return [_printed_item(field, item) for item in value]
    return _printed_item(field, value)


def _printed_item(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type:
        return _printed(field.message_type, value)
    if field.full_name in _PRINTED_AS_TEXT:
        return str(value)
    return _plain_number(value) if isinstance(value, float) else value


def _plain_number(value: float) -> float | int | str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return int(value) if value.is_integer() and abs(value) < _LARGEST_PLAIN_NUMBER else value


def _sparse_value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type and field.message_type.name.endswith("Entry"):
        return dict(_sparse_entry(entry) for entry in value)
    if field.is_repeated:
        return [_sparse_item(field, item) for item in value]
    return _sparse_item(field, value)


def _sparse_entry(entry: Any) -> tuple[str, Any]:
    fields = entry.DESCRIPTOR.fields_by_name
    return str(_sparse_item(fields["key"], entry.key)), _sparse_item(fields["value"], entry.value)


def _sparse_item(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type:
        return sparse_document(value)
    if field.enum_type:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return float(str(np.float32(value)))
    return value
