"""The JSON header of an inference request, read in Triton's order of checks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError, UnsupportedError
from charonia_runtime.core.request import ParameterValue, RequestedOutput, SequenceId
from charonia_runtime.core.tensor import SharedMemoryRef, rank_mistake, shape_text
from charonia_runtime.protocols import json_text
from charonia_runtime.protocols.v2_json.data import decode_data
from charonia_runtime.protocols.v2_json.large_arrays import FROM_BYTES, read_large

_MAXIMUM_INT64 = 2**63 - 1
_LONGEST_CORRELATION_ID = 128
_DATA_SOURCES = ("'data'", "'binary_data_size'", "'shared_memory_region'")

_T = TypeVar("_T")


@dataclass(slots=True)
class OutputForm:
    """How the client wants each output: as bytes behind the header (True) or as JSON in it."""

    default: bool = False
    listed: dict[str, bool] = field(default_factory=dict)


@dataclass(slots=True)
class InputPart:
    """One input of a header: its `data`, or where its bytes lie in the binary part."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    data: memoryview | SharedMemoryRef | None
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class Header:
    """A request's JSON, understood. Shared by all requests with the same text, so never changed."""

    id: str = ""
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    sequence: SequenceId | None = None
    priority: int = 0
    timeout_us: int = 0
    inputs: dict[str, InputPart] = field(default_factory=dict)
    outputs: list[RequestedOutput] = field(default_factory=list)
    form: OutputForm = field(default_factory=OutputForm)
    binary_bytes: int = 0

    @property
    def error_prefix(self) -> str:
        return f"[request id: {self.id or '<id_unknown>'}] "


def read_header(
    text: bytes, binary_bytes: int, model_name: str, maximum_bytes: int, *, newest_rules: bool = True
) -> Header:
    """
    The header in `text`, of a request to `model_name` with `binary_bytes` behind it.

    Raises InferenceError with Triton's text for the first fault.
    """
    reader = _HeaderReader(model_name, binary_bytes, maximum_bytes, newest_rules=newest_rules)
    if len(text) < FROM_BYTES:
        return reader.read(json_text.read(text))
    document, arrays = read_large(text)
    try:
        return reader.read(document)
    finally:
        for array in arrays:  # a mistake in the text comes before all others
            array.check()


def parameter_value(key: str, value: Any) -> ParameterValue:
    """A custom parameter's value. Raises InvalidArgumentError for null, arrays and objects."""
    if isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return value if value <= _MAXIMUM_INT64 else float(value)
    raise InvalidArgumentError(f"parameter '{key}' has invalid type. It should be either 'int', 'bool', or 'string'.")


class _HeaderReader:
    """Reads one header, in Triton's order of checks, since a request may have several faults."""

    def __init__(self, model_name: str, binary_bytes: int, maximum_bytes: int, *, newest_rules: bool) -> None:
        self._model_name = model_name
        self._binary_bytes = binary_bytes
        self._maximum_bytes = maximum_bytes
        self._newest_rules = newest_rules
        self._header = Header()

    def read(self, document: Any) -> Header:
        header = self._header
        members = document if isinstance(document, dict) else {}
        if "id" in members:
            header.id = _parse("id", json_text.as_string, members["id"])
        if "parameters" in members:
            try:
                pairs = json_text.pairs_of(members["parameters"])
            except InferenceError as error:
                raise error.with_prefix("failed to get request params.: ") from None
            self._read_parameters(pairs)
        for entry in _member("inputs", json_text.as_array, members):
            self._read_input(entry)
        if header.binary_bytes != self._binary_bytes:
            raise InvalidArgumentError(f"unexpected additional input data for model '{self._model_name}'")
        if "outputs" in members:
            for entry in _parse("outputs", json_text.as_array, members["outputs"]):
                self._read_output(entry)
        return header

    def _read_parameters(self, pairs: Iterable[tuple[str, Any]]) -> None:
        header = self._header
        correlation_id: int | str = 0
        start = end = False
        for key, value in pairs:
            if key == "sequence_id":
                correlation_id = _correlation_id(value)
            elif key == "sequence_start":
                start = _parse(key, json_text.as_bool, value)
            elif key == "sequence_end":
                end = _parse(key, json_text.as_bool, value)
            elif key == "priority":
                header.priority = _parse(key, json_text.as_unsigned, value)
            elif key == "timeout":
                header.timeout_us = _parse(key, json_text.as_unsigned, value)
            elif key == "binary_data_output":
                header.form.default = _parse(key, json_text.as_bool, value)
            elif key.startswith("triton_"):
                raise InvalidArgumentError(
                    "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."
                )
            else:
                header.parameters[key] = parameter_value(key, value)
        if correlation_id or start or end:
            header.sequence = SequenceId(correlation_id, start, end)

    def _read_input(self, entry: Any) -> None:
        members = entry if isinstance(entry, dict) else {}
        parameters = members.get("parameters")
        if not isinstance(parameters, dict):
            parameters = {}
        _require_one_source("data" in members, parameters)
        name = _member("name", json_text.as_string, members)
        datatype = DataType.from_wire(_member("datatype", json_text.as_string, members))
        header = self._header
        part = InputPart(name, datatype, _shape(name, members), None)
        if name in header.inputs:
            raise InvalidArgumentError(f"{header.error_prefix}input '{name}' already exists in request")
        if "shared_memory_region" in parameters:
            part.data = _shared_memory(parameters)
        elif "binary_data_size" in parameters:
            self._place(part, _member("binary_data_size", json_text.as_unsigned, parameters))
        else:
            part.data = decode_data(
                name, datatype, part.shape, members["data"], self._maximum_bytes, newest_rules=self._newest_rules
            )
        header.inputs[name] = part

    def _place(self, part: InputPart, byte_size: int) -> None:
        """Give the input the next `byte_size` bytes of the binary part."""
        part.start = self._header.binary_bytes
        part.end = part.start + byte_size
        if part.end > self._binary_bytes:
            raise InvalidArgumentError(
                f"unexpected size for input '{part.name}', expecting {part.end - self._binary_bytes} additional bytes "
                f"for model '{self._model_name}'"
            )
        self._header.binary_bytes = part.end

    def _read_output(self, entry: Any) -> None:
        members = entry if isinstance(entry, dict) else {}
        output = RequestedOutput(_member("name", json_text.as_string, members))
        parameters = members.get("parameters")
        binary = False
        if isinstance(parameters, dict):
            if "binary_data" in parameters:
                binary = _member("binary_data", json_text.as_bool, parameters)
            if "classification" in parameters:
                output.classes = _classes(parameters["classification"])
            if "shared_memory_region" in parameters:
                output.shared_memory = _shared_memory(parameters)
                conflict = "classification" if output.classes else "binary_data" if binary else ""
                if conflict:
                    raise InvalidArgumentError(f"Output can't set both 'shared_memory_region' and '{conflict}'")
        header = self._header
        if output.name in header.form.listed:
            if self._newest_rules:
                raise InvalidArgumentError(f"{header.error_prefix}output '{output.name}' already exists in request")
        else:
            header.outputs.append(output)
            header.form.listed[output.name] = binary


def _shape(name: str, members: dict[str, Any]) -> tuple[int, ...]:
    sizes = _member("shape", json_text.as_array, members)
    mistake = rank_mistake(sizes)
    if mistake:
        raise InvalidArgumentError(f"invalid shape for input '{name}': it {mistake}")
    shape = tuple([_parse("shape", json_text.as_unsigned, size) for size in sizes])
    if max(shape, default=0) > _MAXIMUM_INT64:
        raise InvalidArgumentError(
            f"invalid shape for input '{name}': shape {shape_text(shape)} contains one or more invalid dimensions"
        )
    return shape


def _require_one_source(has_data: bool, parameters: dict[str, Any]) -> None:
    present = (has_data, "binary_data_size" in parameters, "shared_memory_region" in parameters)
    if sum(present) == 1:
        return
    given = [source for source, is_set in zip(_DATA_SOURCES, present, strict=True) if is_set]
    found = f"set {' '.join(given)}" if given else "no field is set"
    raise InvalidArgumentError(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
        f"'shared_memory_region' in 'parameters'. But {found}"
    )


def _shared_memory(parameters: dict[str, Any]) -> SharedMemoryRef:
    region = _member("shared_memory_region", json_text.as_string, parameters)
    offset = byte_size = 0
    if "shared_memory_offset" in parameters:
        offset = _member("shared_memory_offset", json_text.as_unsigned, parameters)
    if "shared_memory_byte_size" in parameters:
        byte_size = _member("shared_memory_byte_size", json_text.as_unsigned, parameters)
    return SharedMemoryRef(region, byte_size, offset)


def _correlation_id(value: Any) -> int | str:
    if type(value) is int and value >= 0:
        return value
    text = _parse("sequence_id", json_text.as_string, value)
    if len(text.encode("utf-8", "surrogateescape")) > _LONGEST_CORRELATION_ID:
        raise UnsupportedError(f"string correlation ID cannot be longer than {_LONGEST_CORRELATION_ID} characters")
    return text


def _classes(value: Any) -> int:
    try:
        return json_text.as_unsigned(value)
    except InferenceError as error:
        raise error.with_prefix("Unable to set 'classification': ") from None


def _member(key: str, convert: Callable[[Any], _T], members: dict[str, Any]) -> _T:
    if key not in members:
        raise InternalError(f"Unable to parse '{key}': attempt to access non-existing object member '{key}'")
    return _parse(key, convert, members[key])


def _parse(key: str, convert: Callable[[Any], _T], value: Any) -> _T:
    try:
        return convert(value)
    except InferenceError as error:
        raise error.with_prefix(f"Unable to parse '{key}': ") from None
