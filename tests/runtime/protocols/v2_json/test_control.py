"""The bodies of control requests."""

import base64
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from charonia_runtime.core.errors import InferenceError, UnavailableError
from charonia_runtime.protocols.v2_json.control import (
    CudaRegistration,
    LoadRequest,
    SystemRegistration,
    decode_base64,
    decode_cuda_registration,
    decode_index,
    decode_load,
    decode_log_changes,
    decode_system_registration,
    decode_trace_changes,
    decode_unload,
)

HANDLE = bytes(range(64))
NON_UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer"


def body(document: Any) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(document).encode()


@pytest.mark.parametrize(
    ("decode", "document", "expected"),
    [
        (decode_index, b"", False),
        (decode_index, [1], False),
        (decode_index, {"ready": True}, True),
        (decode_load, b"", LoadRequest()),
        (decode_load, [1], LoadRequest()),
        (decode_load, {"parameters": {"config": "{}", "file:1/model.py": "AAH/"}},
         LoadRequest("{}", {"1/model.py": b"\x00\x01\xff"})),
        (decode_unload, b"", False),
        (decode_unload, {"parameters": {"unload_dependents": True}}, True),
        (decode_trace_changes, {"trace_rate": "7", "trace_count": None, "trace_level": ["OFF"], "trace_mode": "x"},
         {"trace_level": ["OFF"], "trace_rate": ["7"], "trace_count": None}),
        (decode_trace_changes, [], {}),
        (decode_system_registration, {"key": "/a", "byte_size": 5}, SystemRegistration("/a", 0, 5)),
        (decode_cuda_registration,
         {"raw_handle": {"b64": base64.b64encode(HANDLE).decode()}, "device_id": 1, "byte_size": 5},
         CudaRegistration(HANDLE, 1, 5)),
    ],
)  # fmt: skip
def test_requests(decode: Callable[[bytes], object], document: Any, expected: object) -> None:
    assert decode(body(document)) == expected


@pytest.mark.parametrize(
    ("decode", "document", "text"),
    [
        (partial(decode_index, newest_rules=False), {"ready": "yes"}, "attempt to access JSON non-boolean as boolean"),
        (decode_index, {"ready": "yes"}, "Invalid value for 'ready': expected a boolean"),
        (decode_index, b"hello", "failed to parse the request JSON buffer: Invalid value. at 0"),
        (decode_load, {"parameters": [1]}, "attempt to get members for non-object"),
        (decode_load, {"parameters": {"config": {}}}, "attempt to access JSON non-string as string"),
        (decode_load, {"parameters": {"colour": "red"}}, "unexpected error on creating Triton parameter"),
        (decode_unload, {"parameters": {"unload_dependents": 5}},
         "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as boolean"),
        (decode_trace_changes, b"", "failed to parse the request JSON buffer: The document is empty. at 0"),
        (decode_trace_changes, {"trace_level": "OFF"}, "attempt to access JSON non-array as array"),
        (decode_trace_changes, {"trace_level": [5]}, "attempt to access JSON non-string as string"),
        (decode_trace_changes, {"trace_rate": 7}, "attempt to access JSON non-string as string"),
        (decode_trace_changes, {"trace_file": None}, "trace file location can not be updated through network protocol"),
        (decode_trace_changes, {"trace_count": "-2"}, "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"),
        (decode_system_registration, {"byte_size": 5}, "Shared memory register request has no 'key' field"),
        (decode_system_registration, [], "Shared memory register request has no 'key' field"),
        (decode_system_registration, {"key": "a"}, "Shared memory register request has no 'byte_size' field"),
        (decode_system_registration, {"key": "a", "byte_size": "5"}, NON_UNSIGNED),
        (decode_system_registration, {"key": "a", "byte_size": 5, "offset": -1}, NON_UNSIGNED),
        (decode_cuda_registration, {}, "Shared memory register request has no 'raw_handle' field"),
        (decode_cuda_registration, {"raw_handle": 5}, "attempt to access non-existing object member 'b64'"),
        (decode_cuda_registration, {"raw_handle": {"b64": "a"}},
         "attempt to access non-existing object member 'byte_size'"),
        (decode_cuda_registration, {"raw_handle": {"b64": "a"}, "byte_size": 1},
         "attempt to access non-existing object member 'device_id'"),
        (decode_cuda_registration, {"raw_handle": {"b64": "aaaa"}, "byte_size": 1, "device_id": 0},
         "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t"),
    ],
)  # fmt: skip
def test_faults(decode: Callable[[bytes], object], document: Any, text: str) -> None:
    with pytest.raises(InferenceError) as caught:
        decode(body(document))
    assert caught.value.message == text


def test_log_changes_come_one_by_one_until_the_fault() -> None:
    changes = decode_log_changes(body({"log_format": "fancy", "log_verbose_level": 2, "log_info": False, "x": 1}))
    assert next(changes) == {"log_info": False}
    assert next(changes) == {"log_verbose_level": 2}
    with pytest.raises(UnavailableError, match="invalid argument for --log_format, got: fancy"):
        next(changes)


def test_log_changes_that_are_none() -> None:
    assert list(decode_log_changes(b'{"log_file":null,"log_info":null}')) == []
    assert list(decode_log_changes(b"[1]")) == []


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", b""),
        ("AAH/", b"\x00\x01\xff"),
        ("A A\nH/!", b"\x00\x01\xff"),
        ("AA==", b"\x00"),
        ("AA", b"\x00"),
        ("A", b""),
    ],
)
def test_base64_is_lenient(text: str, content: bytes) -> None:
    assert decode_base64(text) == content
