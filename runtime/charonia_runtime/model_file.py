"""Where a version's model file lies, and which file a GPU gets; for the backends that load one."""

import ctypes
from pathlib import Path

from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceKind, ModelConfig
from charonia_runtime.core.errors import UnavailableError

_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76


def find_model_file(
    files: ModelFiles, config: ModelConfig, kind: InstanceKind, device_id: int, default_name: str, *, inside: str = ""
) -> Path:
    """
    The file to load: the one that the configuration names, else `default_name`.

    Where it is a folder, the file `inside` that folder. Raises UnavailableError when there is none.
    """
    path = files.version_directory / _file_name(config, kind, device_id, default_name)
    if inside and path.is_dir():
        path /= inside
    if not path.exists():
        raise UnavailableError(f"unable to find '{path}' for model instance '{files.name}'")
    return path


def _file_name(config: ModelConfig, kind: InstanceKind, device_id: int, default_name: str) -> str:
    name = config.default_model_filename or default_name
    if kind is InstanceKind.GPU and config.cc_model_filenames:
        return config.cc_model_filenames.get(compute_capability(device_id), name)
    return name


def compute_capability(device_id: int) -> str:
    """`<major>.<minor>` of a GPU as the CUDA driver says, empty when it cannot."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    failed = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), device_id)
        or driver.cuDeviceGetAttribute(ctypes.byref(major), _COMPUTE_CAPABILITY_MAJOR, device)
        or driver.cuDeviceGetAttribute(ctypes.byref(minor), _COMPUTE_CAPABILITY_MINOR, device)
    )
    return "" if failed else f"{major.value}.{minor.value}"
