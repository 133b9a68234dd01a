"""The contract's models for the `tensorrt` backend, on a stand-in for the package and the GPU."""

from pathlib import Path
from typing import Any

import pytest

from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig
from charonia_runtime.core.datatypes import DataType
from tests.support.configs import a_config, a_tensor
from tests.support.tensorrt_runtime import (
    TYPE_NAMES,
    a_plan,
    an_input,
    an_output,
    install_tensorrt,
    write_plan,
)

LIBRARY = ""
DATATYPES = tuple(TYPE_NAMES)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    install_tensorrt(monkeypatch)


def passing(directory: Path, datatype: DataType, *, max_batch_size: int = 8) -> ModelConfig:
    shape = (-1, -1) if max_batch_size else (-1,)
    ranges = [[[1, 0], [4, 4], [8, 512]] if max_batch_size else [[0], [4], [512]]]
    kind = TYPE_NAMES[datatype]
    write_plan(directory, a_plan(
        [an_input(name, *shape, datatype=kind, profiles=ranges) for name in ("INPUT0", "INPUT1")],
        [an_output(name, *shape, datatype=kind) for name in ("OUTPUT0", "OUTPUT1")],
    ))  # fmt: skip
    return _config(
        max_batch_size=max_batch_size,
        inputs=(a_tensor("INPUT0", datatype, -1), a_tensor("INPUT1", datatype, -1)),
        outputs=(a_tensor("OUTPUT0", datatype, -1), a_tensor("OUTPUT1", datatype, -1)),
    )


def failing(directory: Path) -> ModelConfig | None:
    ranges = [[[1, 1], [4, 4], [8, 512]]]
    write_plan(directory, a_plan(
        [an_input("INPUT0", -1, -1, profiles=ranges)], [an_output("OUTPUT0", -1, 7)], program="sevens"
    ))  # fmt: skip
    return _config(
        inputs=(a_tensor("INPUT0", DataType.FP32, -1),),
        outputs=(a_tensor("OUTPUT0", DataType.FP32, 7),),
    )


def _config(**changes: Any) -> ModelConfig:
    groups = (InstanceGroup("simple", InstanceKind.GPU, 1, gpus=(0,)),)
    return a_config(backend="tensorrt", platform="tensorrt_plan", instance_groups=groups, **changes)
