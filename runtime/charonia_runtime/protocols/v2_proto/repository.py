"""Messages that control the model repository: index, load, unload (section 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tritonclient.grpc import service_pb2

from charonia_runtime.core.errors import InvalidArgumentError, UnsupportedError
from charonia_runtime.core.server import IndexEntry
from charonia_runtime.core.texts import utf8_text
from charonia_runtime.protocols.v2_proto import kind_of, parse

_FILE_PREFIX = "file:"


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What to load: `config` is JSON text in place of the model's own; `files` are its files, by path."""

    model_name: str
    config: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnloadRequest:
    model_name: str
    unload_dependents: bool = False


def decode_index(data: bytes) -> bool:
    """Whether only ready models are asked for. Raises UnsupportedError when a repository is named."""
    message = parse(service_pb2.RepositoryIndexRequest, data)
    _refuse_repository(message.repository_name)
    ready: bool = message.ready
    return ready


def encode_index(entries: Sequence[IndexEntry]) -> bytes:
    message = service_pb2.RepositoryIndexResponse(
        models=[
            service_pb2.RepositoryIndexResponse.ModelIndex(
                name=utf8_text(entry.name),
                version="" if entry.version is None else str(entry.version),
                state=entry.state or "",
                reason=utf8_text(entry.reason or ""),
            )
            for entry in entries
        ]
    )
    return bytes(message.SerializeToString())


def decode_load(data: bytes) -> LoadRequest:
    """Raises InvalidArgumentError for parameters that are unknown or of the wrong type."""
    message = parse(service_pb2.RepositoryModelLoadRequest, data)
    _refuse_repository(message.repository_name)
    config: str | None = None
    files: dict[str, bytes] = {}
    for name, parameter in message.parameters.items():
        is_file = name.startswith(_FILE_PREFIX)
        if not is_file and name != "config":
            raise InvalidArgumentError(f"unrecognized load parameter '{name}'.")
        expected = "bytes_param" if is_file else "string_param"
        if kind_of(parameter) != expected:
            raise InvalidArgumentError(f"invalid value type for load parameter '{name}', expected {expected}.")
        if is_file:
            files[name.removeprefix(_FILE_PREFIX)] = parameter.bytes_param
        else:
            config = parameter.string_param
    return LoadRequest(message.model_name, config, files)


def decode_unload(data: bytes) -> UnloadRequest:
    """Unknown parameters are ignored. Raises InvalidArgumentError when `unload_dependents` is no bool."""
    message = parse(service_pb2.RepositoryModelUnloadRequest, data)
    _refuse_repository(message.repository_name)
    parameter = message.parameters.get("unload_dependents")
    if parameter is None:
        return UnloadRequest(message.model_name)
    if kind_of(parameter) != "bool_param":
        raise InvalidArgumentError("invalid value type for 'unload_dependents' parameter, expected bool_param.")
    return UnloadRequest(message.model_name, parameter.bool_param)


def _refuse_repository(name: str) -> None:
    if name:
        raise UnsupportedError("'repository_name' specification is not supported")
