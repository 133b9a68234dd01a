"""What the server answers about its services."""

from functools import cache
from typing import Any, Final

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from tritonclient.grpc import service_pb2

from charonia_runtime.protocols.reflection.schema import health_file, reflection_file
from charonia_runtime.protocols.v2_proto import parse

VERSIONS: Final = ("v1", "v1alpha")
"""Of the reflection service; their messages are the same on the wire."""

_NOT_FOUND: Final = 5
_UNIMPLEMENTED: Final = 12


def answer(data: bytes | memoryview) -> bytes:
    """The response to a `ServerReflectionRequest`. Raises InternalError when the bytes are none."""
    schema = _schema()
    request = parse(schema.request, data)
    response = schema.response(valid_host=request.host, original_request=request)
    kind = request.WhichOneof("message_request")
    if kind == "list_services":
        for name in schema.services:
            response.list_services_response.service.add(name=name)
    elif kind == "file_by_filename":
        _add_files(response, schema.find_file(request.file_by_filename), request.file_by_filename)
    elif kind == "file_containing_symbol":
        _add_files(response, schema.find_symbol(request.file_containing_symbol), request.file_containing_symbol)
    elif kind in {"file_containing_extension", "all_extension_numbers_of_type"}:
        _refuse(response, _NOT_FOUND, "no message of this server has extensions")
    else:
        _refuse(response, _UNIMPLEMENTED, "the request asks for nothing that is known here")
    return bytes(response.SerializeToString())


class _Schema:
    """Every file that the services are described in."""

    def __init__(self) -> None:
        self._pool: Any = DescriptorPool()
        self.services: list[str] = []
        files = [service_pb2.DESCRIPTOR, *service_pb2.DESCRIPTOR.dependencies]
        for file in reversed(files):
            self._pool.AddSerializedFile(file.serialized_pb)
        own = [health_file(), *map(reflection_file, VERSIONS)]
        for file in own:
            self._pool.AddSerializedFile(file.SerializeToString())
        for name in (files[0].name, *(file.name for file in own)):
            described = self._pool.FindFileByName(name).services_by_name.values()
            self.services += [service.full_name for service in described]
        self.services.sort()
        self.request = self._message("ServerReflectionRequest")
        self.response = self._message("ServerReflectionResponse")

    def find_file(self, name: str) -> Any:
        """The file called so; None if there is none."""
        try:
            return self._pool.FindFileByName(name)
        except KeyError:
            return None

    def find_symbol(self, name: str) -> Any:
        """The file with the service, method, message or enum called so; None if there is none."""
        for known in (name, name.rpartition(".")[0]):
            try:
                return self._pool.FindFileContainingSymbol(known)
            except KeyError:
                continue
        return None

    def _message(self, name: str) -> Any:
        return GetMessageClass(self._pool.FindMessageTypeByName(f"grpc.reflection.v1.{name}"))


@cache
def _schema() -> _Schema:
    """Made when somebody asks: most servers are never asked."""
    return _Schema()


def _add_files(response: Any, file: Any, wanted: str) -> None:
    """Add a file and those that it needs."""
    if file is None:
        _refuse(response, _NOT_FOUND, f"'{wanted}' is not known here")
        return
    needed = {file.name: file}
    for known in [file, *file.dependencies]:
        needed.setdefault(known.name, known)
    response.file_descriptor_response.file_descriptor_proto.extend(known.serialized_pb for known in needed.values())


def _refuse(response: Any, code: int, text: str) -> None:
    response.error_response.error_code = code
    response.error_response.error_message = text
