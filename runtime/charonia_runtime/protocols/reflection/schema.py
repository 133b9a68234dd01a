"""The files of the health and the reflection services, as descriptors."""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

_Field = tuple[str, int, str]
"""Name, number, type: `string`, `bytes`, `int32`, or the full name of a message; `repeated` may stand before it."""

_SCALARS: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
}


def health_file() -> Any:
    """`grpc/health/v1/health.proto`."""
    package = "grpc.health.v1"
    file = _file("grpc/health/v1/health.proto", package)
    file.message_type.append(_message("HealthCheckRequest", [("service", 1, "string")]))
    response = _message("HealthCheckResponse", [])
    status = response.enum_type.add(name="ServingStatus")
    for number, name in enumerate(("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")):
        status.value.add(name=name, number=number)
    response.field.add(
        name="status", number=1, label=FieldDescriptorProto.LABEL_OPTIONAL, type=FieldDescriptorProto.TYPE_ENUM,
        type_name=f".{package}.HealthCheckResponse.ServingStatus",
    )  # fmt: skip
    file.message_type.append(response)
    service = file.service.add(name="Health")
    ends = {"input_type": f".{package}.HealthCheckRequest", "output_type": f".{package}.HealthCheckResponse"}
    service.method.add(name="Check", **ends)
    service.method.add(name="Watch", server_streaming=True, **ends)
    return file


def reflection_file(version: str) -> Any:
    """`grpc/reflection/<version>/reflection.proto`; the versions differ in nothing but their name."""
    package = f"grpc.reflection.{version}"
    file = _file(f"grpc/reflection/{version}/reflection.proto", package)
    file.message_type.extend([
        _message(
            "ServerReflectionRequest",
            [("host", 1, "string")],
            "message_request",
            [
                ("file_by_filename", 3, "string"),
                ("file_containing_symbol", 4, "string"),
                ("file_containing_extension", 5, f"{package}.ExtensionRequest"),
                ("all_extension_numbers_of_type", 6, "string"),
                ("list_services", 7, "string"),
            ],
        ),
        _message("ExtensionRequest", [("containing_type", 1, "string"), ("extension_number", 2, "int32")]),
        _message(
            "ServerReflectionResponse",
            [("valid_host", 1, "string"), ("original_request", 2, f"{package}.ServerReflectionRequest")],
            "message_response",
            [
                ("file_descriptor_response", 4, f"{package}.FileDescriptorResponse"),
                ("all_extension_numbers_response", 5, f"{package}.ExtensionNumberResponse"),
                ("list_services_response", 6, f"{package}.ListServiceResponse"),
                ("error_response", 7, f"{package}.ErrorResponse"),
            ],
        ),
        _message("FileDescriptorResponse", [("file_descriptor_proto", 1, "repeated bytes")]),
        _message(
            "ExtensionNumberResponse", [("base_type_name", 1, "string"), ("extension_number", 2, "repeated int32")]
        ),
        _message("ListServiceResponse", [("service", 1, f"repeated {package}.ServiceResponse")]),
        _message("ServiceResponse", [("name", 1, "string")]),
        _message("ErrorResponse", [("error_code", 1, "int32"), ("error_message", 2, "string")]),
    ])  # fmt: skip
    file.service.add(name="ServerReflection").method.add(
        name="ServerReflectionInfo",
        input_type=f".{package}.ServerReflectionRequest",
        output_type=f".{package}.ServerReflectionResponse",
        client_streaming=True,
        server_streaming=True,
    )
    return file


def _file(name: str, package: str) -> Any:
    return FileDescriptorProto(name=name, package=package, syntax="proto3")


def _message(name: str, fields: Sequence[_Field], choice: str = "", choices: Sequence[_Field] = ()) -> Any:
    """A message with plain fields, then those of which one is chosen."""
    message = DescriptorProto(name=name)
    for field in fields:
        _add_field(message, field)
    if choice:
        message.oneof_decl.add(name=choice)
        for field in choices:
            _add_field(message, field).oneof_index = 0
    return message


def _add_field(message: Any, field: _Field) -> Any:
    name, number, kind = field
    scalar = kind.removeprefix("repeated ")
    repeated = scalar != kind
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    added = message.field.add(name=name, number=number, label=label)
    if scalar in _SCALARS:
        added.type = _SCALARS[scalar]
    else:
        added.type = FieldDescriptorProto.TYPE_MESSAGE
        added.type_name = f".{scalar}"
    return added
