"""
A stand-in for the package `tensorrt`, version 10 and newer: plans are JSON, engines compute with numpy.

    gpus, tensorrt = install_tensorrt(monkeypatch)
    write_plan(directory, a_plan([an_input("IN", -1, 4)], [an_output("OUT", -1, 4)], program="identity"))

Engines are as particular as the real ones: shapes must lie in the active profile, addresses must be aligned and lie in
memory of the right kind and size, and nothing is computed before the stream is waited for. Their memory is that of
`tests.support.cuda_runtime`.
"""

import ctypes
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import prod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from charonia_runtime.core.datatypes import DataType as OurType
from tests.support.cuda_runtime import FakeGpus

Shapes = Mapping[str, tuple[int, ...]]
Arrays = Mapping[str, np.ndarray[Any, Any]]

NUMPY_TYPES = {
    "FLOAT": np.float32, "HALF": np.float16, "BF16": np.uint16, "INT8": np.int8, "UINT8": np.uint8,
    "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_, "FP8": np.uint8,
}  # fmt: skip
TYPE_NAMES = {
    OurType.FP32: "FLOAT", OurType.FP16: "HALF", OurType.BF16: "BF16", OurType.INT8: "INT8", OurType.UINT8: "UINT8",
    OurType.INT32: "INT32", OurType.INT64: "INT64", OurType.BOOL: "BOOL",
}  # fmt: skip


# --- plans ---


def an_input(name: str, *shape: int, datatype: str = "FLOAT", **more: Any) -> dict[str, Any]:
    """
    `profiles` are lists of minimum, optimum and maximum; sizes 1 to 8, tuned for 4, where none is given.

    `values` are the same of a shape tensor.
    """
    default = [[[size if size >= 0 else free for size in shape] for free in (1, 4, 8)]]
    return {"name": name, "mode": "INPUT", "shape": shape, "dtype": datatype, "profiles": default} | more


def an_output(name: str, *shape: int, datatype: str = "FLOAT", **more: Any) -> dict[str, Any]:
    return {"name": name, "mode": "OUTPUT", "shape": shape, "dtype": datatype} | more


def a_plan(
    inputs: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]], program: str = "identity", **more: Any
) -> bytes:
    return json.dumps({"tensors": [*inputs, *outputs], "program": program} | more).encode()


def write_plan(directory: Path, plan: bytes) -> Path:
    """As version 1 of a model's folder."""
    (directory / "1").mkdir(parents=True, exist_ok=True)
    (directory / "1" / "model.plan").write_bytes(plan)
    return directory


# --- programs: shapes of the outputs by shapes and values of the inputs, and what they hold ---


class Program:
    """`shapes` may hold -1; `fails` says why an execution cannot be enqueued."""

    def __init__(
        self,
        shapes: Callable[[Shapes, Arrays], Shapes],
        run: Callable[[Arrays], Arrays],
        fails: Callable[[Shapes], str] = lambda shapes: "",
    ) -> None:
        self.shapes = shapes
        self.run = run
        self.fails = fails


def _outputs_of(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("IN", "OUT"): value for name, value in given.items()}


def _nonzero(arrays: Arrays) -> Arrays:
    return {"OUT": np.flatnonzero(arrays["IN"]).astype(np.int64)}


PROGRAMS = {
    "identity": Program(lambda shapes, _: _outputs_of(shapes), _outputs_of),
    "double": Program(
        lambda shapes, _: _outputs_of(shapes), lambda arrays: {"OUT": arrays["IN"] * arrays["IN"].dtype.type(2)}
    ),
    "sevens": Program(
        lambda shapes, _: {"OUTPUT0": (prod(shapes["INPUT0"]) // 7, 7)},
        lambda arrays: {"OUTPUT0": arrays["INPUT0"].reshape(-1, 7)},
        lambda shapes: "" if prod(shapes["INPUT0"]) % 7 == 0 else "reshape: volume mismatch",
    ),
    "nonzero": Program(lambda shapes, _: {"OUT": (-1,)}, _nonzero),
    "resize": Program(  # IN to the sizes that SIZES says, and SIZES itself
        lambda shapes, values: {"OUT": tuple(values["SIZES"].tolist()), "SIZES_OUT": values["SIZES"].shape},
        lambda arrays: {
            "OUT": np.resize(arrays["IN"], arrays["SIZES"].tolist()),
            "SIZES_OUT": arrays["SIZES"].astype(np.int64),
        },
    ),
    "accumulate": Program(
        lambda shapes, _: {"OUT": shapes["IN"], "NEXT": shapes["STATE"]},
        lambda arrays: {"OUT": arrays["IN"] + arrays["STATE"], "NEXT": arrays["IN"] + arrays["STATE"]},
    ),
}


# --- the package ---


class TensorIOMode(Enum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(Enum):
    DEVICE = 0
    HOST = 1


class TensorFormat(Enum):
    LINEAR = 0
    CHW2 = 1
    HWC = 8


class Severity(Enum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class ExecutionContextAllocationStrategy(Enum):
    STATIC = 0
    ON_PROFILE_CHANGE = 1
    USER_MANAGED = 2


DataType = Enum("DataType", list(NUMPY_TYPES))  # type: ignore[misc]  # its members are made of a table


class ILogger:
    Severity = Severity

    def __init__(self) -> None:
        self.made = True

    def log(self, severity: Severity, msg: str) -> None:
        raise NotImplementedError


class IOutputAllocator:
    def __init__(self) -> None:
        self.made = True


class Runtime:
    def __init__(self, logger: Any, *, gpus: FakeGpus) -> None:
        assert logger.made, "ILogger.__init__ was not called"
        self.logger = logger
        self.engine_host_code_allowed = False
        self._gpus = gpus

    def complain(self, text: str) -> None:
        self.logger.log(Severity.ERROR, text)

    def deserialize_cuda_engine(self, serialized_engine: Any) -> "ICudaEngine | None":
        try:
            plan = json.loads(bytes(serialized_engine))
        except ValueError:
            self.complain("magicTag does not match")
            return None
        if plan.get("host_code") and not self.engine_host_code_allowed:
            self.complain("host code is not allowed")
            return None
        return ICudaEngine(plan, self)


class ICudaEngine:
    def __init__(self, plan: Mapping[str, Any], runtime: Runtime) -> None:
        self._plan = plan
        self._tensors = {tensor["name"]: tensor for tensor in plan["tensors"]}
        self.runtime = runtime
        self.gpus = runtime._gpus
        self.device = self.gpus.device()
        self.program = PROGRAMS[plan["program"]]
        self.contexts: list[IExecutionContext] = []
        if plan.get("implicit"):
            self.has_implicit_batch_dimension = True

    @property
    def num_io_tensors(self) -> int:
        return len(self._tensors)

    @property
    def num_optimization_profiles(self) -> int:
        return max(len(tensor["profiles"]) for tensor in self._tensors.values() if tensor["mode"] == "INPUT")

    def get_tensor_name(self, index: int) -> str:
        return list(self._tensors)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode[self._tensors[name]["mode"]]

    def get_tensor_dtype(self, name: str) -> Any:
        return DataType[self._tensors[name]["dtype"]]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name]["shape"])

    def get_tensor_format(self, name: str) -> TensorFormat:
        return TensorFormat[self._tensors[name].get("format", "LINEAR")]

    def get_tensor_vectorized_dim(self, name: str) -> int:
        return 1 if self.get_tensor_format(name) is TensorFormat.CHW2 else -1

    def get_tensor_components_per_element(self, name: str) -> int:
        return 2 if self.get_tensor_format(name) is TensorFormat.CHW2 else 1

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.HOST if self.is_shape_inference_io(name) else TensorLocation.DEVICE

    def is_shape_inference_io(self, name: str) -> bool:
        tensor = self._tensors[name]
        return "values" in tensor or bool(tensor.get("shape_tensor"))

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        return [tuple(sizes) for sizes in self._tensors[name]["profiles"][profile_index]]

    def get_tensor_profile_values(self, name: int, profile_index: str) -> list[list[int]]:
        """The bindings have these two the wrong way round: the profile is the one called name."""
        assert isinstance(name, int)
        values: list[list[int]] = self._tensors[profile_index]["values"][name]
        return values

    def create_execution_context(self, strategy: ExecutionContextAllocationStrategy) -> "IExecutionContext | None":
        if self._plan.get("no_context"):
            self.runtime.complain("out of memory")
            return None
        assert self.gpus.device() == self.device, "another device is current"
        self.contexts.append(IExecutionContext(self, strategy))
        return self.contexts[-1]


class IExecutionContext:
    def __init__(self, engine: ICudaEngine, strategy: ExecutionContextAllocationStrategy) -> None:
        self.engine = engine
        self.strategy = strategy
        self.active_optimization_profile = 0
        self.executions = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        self.engine.gpus.stream(stream_handle)
        self.active_optimization_profile = profile_index
        self._shapes.clear()
        return 0 <= profile_index < self.engine.num_optimization_profiles

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        assert type(shape) in {tuple, list}
        minimum, _, maximum = self.engine.get_tensor_profile_shape(name, self.active_optimization_profile)
        fixed = self.engine.get_tensor_shape(name)
        fits = len(shape) == len(fixed) and all(
            own in {-1, size} and low <= size <= high
            for own, size, low, high in zip(fixed, shape, minimum, maximum, strict=True)
        )
        if not fits:
            self.engine.runtime.complain(f"{name}: {shape} does not satisfy the profile")
            return False
        self._shapes[name] = tuple(shape)
        return True

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if self.engine.get_tensor_location(name) is TensorLocation.DEVICE:
            assert memory % 256 == 0, "TensorRT wants aligned addresses"
        self._addresses[name] = memory
        return True

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def set_output_allocator(self, name: str, output_allocator: Any) -> bool:
        assert output_allocator.made, "IOutputAllocator.__init__ was not called"
        self._allocators[name] = output_allocator
        return True

    def infer_shapes(self) -> list[str]:
        tensors = self.engine._tensors
        return [
            name
            for name, tensor in tensors.items()
            if tensor["mode"] == "INPUT" and (name not in self._shapes or ("values" in tensor and not self._addresses.get(name)))
        ]  # fmt: skip

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        if name in self._shapes:
            return self._shapes[name]
        values = {
            name: self._read(name, self._shapes[name])
            for name in self._shapes
            if self.engine.get_tensor_location(name) is TensorLocation.HOST
        }
        return tuple(self.engine.program.shapes(self._shapes, values)[name])

    def execute_async_v3(self, stream_handle: int) -> bool:
        assert stream_handle, "the default stream is slow"
        assert self.engine.gpus.device() == self.engine.device, "another device is current"
        reason = self.engine.program.fails(self._shapes)
        if reason:
            self.engine.runtime.complain(reason)
            return False
        self.executions += 1
        stream = self.engine.gpus.stream(stream_handle)
        shapes, addresses = dict(self._shapes), dict(self._addresses)
        for name, allocator in self._allocators.items():
            stream.run()
            array = self.engine.program.run({name: self._read(name, shape) for name, shape in shapes.items()})[name]
            addresses[name] = allocator.reallocate_output_async(name, 0, max(array.nbytes, 1), 256, stream_handle)
            if not addresses[name]:
                self.engine.runtime.complain("output allocator gave no memory")
                return False
            allocator.notify_shape(name, array.shape)
        missing = [name for name in self.engine._tensors if not addresses.get(name)]
        assert not missing, f"no address for {missing}"
        stream.put(lambda: self._compute(shapes, addresses))
        return True

    def _compute(self, shapes: Shapes, addresses: Mapping[str, int]) -> None:
        inputs = {name: self._read(name, shape, addresses[name]) for name, shape in shapes.items()}
        for name, array in self.engine.program.run(inputs).items():
            kind = NUMPY_TYPES[self.engine._tensors[name]["dtype"]]
            content = np.ascontiguousarray(array, kind).tobytes()
            self._check_place(name, addresses[name], len(content))
            ctypes.memmove(addresses[name], content, len(content))

    def _read(self, name: str, shape: tuple[int, ...], address: int | None = None) -> np.ndarray[Any, Any]:
        kind = np.dtype(NUMPY_TYPES[self.engine._tensors[name]["dtype"]])
        size = prod(shape) * kind.itemsize
        place = self._addresses[name] if address is None else address
        self._check_place(name, place, size)
        return np.frombuffer(ctypes.string_at(place, size), kind).reshape(shape)

    def _check_place(self, name: str, address: int, size: int) -> None:
        found = self.engine.gpus.find(address, max(size, 1))
        if self.engine.get_tensor_location(name) is TensorLocation.DEVICE:
            assert found is not None, f"{name} does not lie on a GPU"
            assert found.device == self.engine.device
        assert found is None or not found.freed, f"the memory of {name} was freed"


class FakeTensorrt(ModuleType):
    """The module. `plugins` counts how often its plugins were registered; `runtimes` are all that were made."""

    TensorIOMode = TensorIOMode
    TensorLocation = TensorLocation
    TensorFormat = TensorFormat
    ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy
    DataType = DataType
    ILogger = ILogger
    IOutputAllocator = IOutputAllocator
    ICudaEngine = ICudaEngine
    IExecutionContext = IExecutionContext

    def __init__(self, gpus: FakeGpus, version: str = "11.4.0.106") -> None:
        super().__init__("tensorrt")
        self.__version__ = version
        self.gpus = gpus
        self.plugins = 0
        self.runtimes: list[Runtime] = []

    def init_libnvinfer_plugins(self, logger: Any, namespace: str) -> bool:
        assert logger.made
        assert not namespace
        self.plugins += 1
        return True

    def Runtime(self, logger: Any) -> Runtime:  # noqa: N802 - a class of the module
        self.runtimes.append(Runtime(logger, gpus=self.gpus))
        return self.runtimes[-1]


def install_tensorrt(monkeypatch: pytest.MonkeyPatch, gpus: FakeGpus | None = None) -> tuple[FakeGpus, FakeTensorrt]:
    """Let `import tensorrt` and `from cuda.bindings import …` find stand-ins, on a machine with `gpus`."""
    found = gpus or FakeGpus()
    tensorrt = FakeTensorrt(found)
    monkeypatch.setitem(sys.modules, "tensorrt", tensorrt)
    bindings: Any = SimpleNamespace(runtime=found.runtime, driver=found.driver)
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    return found, tensorrt
