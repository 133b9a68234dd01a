"""Messages that control: repository, shared memory, settings."""

from typing import Any

import pytest
from google.protobuf import json_format
from tritonclient.grpc import service_pb2

from charonia_runtime.core.errors import InferenceError, InvalidArgumentError, UnsupportedError
from charonia_runtime.core.server import CudaRegion, IndexEntry, SystemRegion
from charonia_runtime.protocols.v2_proto import memory, repository, settings
from charonia_runtime.protocols.v2_proto.repository import LoadRequest, UnloadRequest


def message(name: str, document: dict[str, Any]) -> bytes:
    data: bytes = json_format.ParseDict(document, getattr(service_pb2, name)()).SerializeToString()
    return data


# --- repository ---


def test_index() -> None:
    assert repository.decode_index(message("RepositoryIndexRequest", {"ready": True}))
    data = repository.encode_index([IndexEntry("a"), IndexEntry("b", 2, "UNAVAILABLE", "unloaded")])
    models = service_pb2.RepositoryIndexResponse.FromString(data).models
    assert [(model.name, model.version, model.state, model.reason) for model in models] == [
        ("a", "", "", ""), ("b", "2", "UNAVAILABLE", "unloaded"),
    ]  # fmt: skip


def test_load_takes_a_configuration_and_files() -> None:
    parameters = {"config": {"string_param": "{}"}, "file:1/model.py": {"bytes_param": "AP8="}}
    data = message("RepositoryModelLoadRequest", {"model_name": "m", "parameters": parameters})
    assert repository.decode_load(data) == LoadRequest("m", "{}", {"1/model.py": b"\x00\xff"})


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"config": {"int64_param": 1}}, "invalid value type for load parameter 'config', expected string_param."),
        ({"config": {}}, "invalid value type for load parameter 'config', expected string_param."),
        (
            {"file:1/model.py": {"string_param": "x"}},
            "invalid value type for load parameter 'file:1/model.py', expected bytes_param.",
        ),
        ({"colour": {"string_param": "red"}}, "unrecognized load parameter 'colour'."),
    ],
)
def test_bad_load_parameters(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        repository.decode_load(message("RepositoryModelLoadRequest", {"parameters": parameters}))
    assert caught.value.message == text


def test_unload() -> None:
    def decode(parameters: dict[str, Any]) -> UnloadRequest:
        document = {"model_name": "m", "parameters": parameters}
        return repository.decode_unload(message("RepositoryModelUnloadRequest", document))

    assert decode({"other": {"int64_param": 1}}) == UnloadRequest("m")
    assert decode({"unload_dependents": {"bool_param": True}}) == UnloadRequest("m", unload_dependents=True)
    with pytest.raises(InvalidArgumentError, match=r"'unload_dependents' parameter, expected bool_param.$"):
        decode({"unload_dependents": {"string_param": "true"}})


@pytest.mark.parametrize(
    ("name", "decode"),
    [
        ("RepositoryIndexRequest", repository.decode_index),
        ("RepositoryModelLoadRequest", repository.decode_load),
        ("RepositoryModelUnloadRequest", repository.decode_unload),
    ],
)
def test_repositories_have_no_names(name: str, decode: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"^'repository_name' specification is not supported$"):
        decode(message(name, {"repository_name": "main"}))


# --- shared memory ---


def test_regions() -> None:
    region = SystemRegion("r", "/key", 4096, 64)
    document = {"name": "r", "key": "/key", "offset": 4096, "byte_size": 64}
    assert memory.decode_system_registration(message("SystemSharedMemoryRegisterRequest", document)) == region
    data = memory.encode_system_regions([region])
    found = service_pb2.SystemSharedMemoryStatusResponse.FromString(data).regions
    assert json_format.MessageToDict(found["r"], preserving_proto_field_name=True) == {
        "name": "r", "key": "/key", "offset": "4096", "byte_size": "64",
    }  # fmt: skip
    cuda = memory.encode_cuda_regions([CudaRegion("c", 1, 8)])
    status = service_pb2.CudaSharedMemoryStatusResponse.FromString(cuda).regions["c"]
    assert (status.name, status.device_id, status.byte_size) == ("c", 1, 8)


def test_cuda_registration() -> None:
    document = {"name": "c", "raw_handle": "AP8=", "device_id": 1, "byte_size": 8}
    found = memory.decode_cuda_registration(message("CudaSharedMemoryRegisterRequest", document))
    assert (found.name, found.raw_handle, found.device_id, found.byte_size) == ("c", b"\x00\xff", 1, 8)


@pytest.mark.parametrize(
    "name",
    [
        "SystemSharedMemoryStatusRequest", "SystemSharedMemoryUnregisterRequest",
        "CudaSharedMemoryStatusRequest", "CudaSharedMemoryUnregisterRequest",
    ],
)  # fmt: skip
def test_region_names(name: str) -> None:
    assert memory.decode_region_name(message(name, {"name": "r"})) == "r"
    assert memory.decode_region_name(b"") == ""


# --- settings ---


def decode_trace(changes: dict[str, list[str]]) -> dict[str, Any]:
    document = {"model_name": "m", "settings": {name: {"value": values} for name, values in changes.items()}}
    request = settings.decode_trace(message("TraceSettingRequest", document))
    assert request.model_name == "m"
    return dict(request.changes())


def test_trace_changes() -> None:
    assert decode_trace({"trace_rate": ["8"], "trace_level": [], "foo": ["1", "2"]}) == {
        "trace_level": None, "trace_rate": ("8",),
    }  # fmt: skip
    assert decode_trace({"trace_level": ["TIMESTAMPS", "TENSORS"]}) == {"trace_level": ("TIMESTAMPS", "TENSORS")}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"trace_rate": ["8", "9"]}, InvalidArgumentError("expect only 1 value for 'trace_rate'")),
        ({"log_frequency": ["8", "9"]}, InvalidArgumentError("expect only 1 value for 'log_frequency'")),
        (
            {"trace_count": ["-2"]},
            InvalidArgumentError("Unable to parse 'trace_count'. Expecting value >= -1, got: -2"),
        ),
        (
            {"trace_file": [], "trace_rate": ["8", "9"]},
            UnsupportedError("trace file location can not be updated through network protocol"),
        ),
    ],
)
def test_bad_trace_changes(changes: dict[str, list[str]], error: InferenceError) -> None:
    with pytest.raises(type(error)) as caught:
        decode_trace(changes)
    assert caught.value.message == error.message


@pytest.mark.parametrize("text", ["abc", "", "99999999999", "9" * 100_000, "-1"])
def test_other_trace_counts_are_left_to_the_settings(text: str) -> None:
    assert decode_trace({"trace_count": [text]}) == {"trace_count": (text,)}


def test_trace_settings_are_shown() -> None:
    data = settings.encode_trace({"trace_level": ("A", "B"), "trace_file": ("",)})
    found = service_pb2.TraceSettingResponse.FromString(data).settings
    assert {name: list(setting.value) for name, setting in found.items()} == {
        "trace_level": ["A", "B"], "trace_file": [""],
    }  # fmt: skip


def decode_log(changes: dict[str, Any]) -> Any:
    return settings.decode_log(message("LogSettingsRequest", {"settings": changes}))


def test_log_changes() -> None:
    changes = {
        "log_format": {"string_param": "ISO8601"}, "log_verbose_level": {"uint32_param": 2},
        "log_info": {"bool_param": False}, "foo": {},
    }  # fmt: skip
    assert list(decode_log(changes).items()) == [
        ("log_info", False), ("log_verbose_level", 2), ("log_format", "ISO8601"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"log_info": {"string_param": "true"}}, InvalidArgumentError("expect boolean for 'log_info'")),
        ({"log_error": {}, "log_warning": {}}, InvalidArgumentError("expect boolean for 'log_warning'")),
        ({"log_verbose_level": {"bool_param": True}}, InvalidArgumentError("expect int32 for 'log_verbose_level'")),
        ({"log_format": {}}, InvalidArgumentError("expect string for 'log_format'")),
        (
            {"log_format": {"string_param": "fancy"}},
            InvalidArgumentError("invalid argument for log_format, got: fancy"),
        ),
        (
            {"log_file": {}, "log_info": {}},
            UnsupportedError("log file location can not be updated through network protocol"),
        ),
    ],
)
def test_bad_log_changes(changes: dict[str, Any], error: InferenceError) -> None:
    with pytest.raises(type(error)) as caught:
        decode_log(changes)
    assert caught.value.message == error.message


def test_log_settings_are_shown() -> None:
    data = settings.encode_log({"log_file": "", "log_info": True, "log_verbose_level": 0})
    found = service_pb2.LogSettingsResponse.FromString(data).settings
    kinds = {name: setting.WhichOneof("parameter_choice") for name, setting in found.items()}
    assert kinds == {"log_file": "string_param", "log_info": "bool_param", "log_verbose_level": "uint32_param"}
