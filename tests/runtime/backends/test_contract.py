"""
What every backend must do, whatever it runs. One suite over every module of `backends/`.

A backend takes part through `tests/support/backend_cases/<name>.py`: `LIBRARY` (what it needs installed), `DATATYPES`
(what it claims), and models that it can run: `passing`, `optional` and `failing`. A library that needs hardware has a
`stand_in`, which is put in its place. Where a framework knows only tensors
of its own, the module has none of these, and the backend only its own tests. A backend that is not ours names its
`DIRECTORY`, as on the command line.
"""

import asyncio
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from charonia_runtime.backends import backend_names, load_backend
from charonia_runtime.core.backend import Backend, BackendTraits
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import InferenceError
from tests.support.batches import a_batch
from tests.support.frameworks import case_names, is_installed
from tests.support.loaded_models import LoadedModel, execute

NAMES = case_names()
CLAIMS = [(name, datatype) for name in NAMES for datatype in DataType if datatype is not DataType.INVALID]
VALUES: dict[DataType, list[Any]] = {
    DataType.BOOL: [True, False, True],
    DataType.BYTES: [b"", "é\0b".encode(), b"x" * 300],
    DataType.FP16: [-0.0, 65504.0, float("nan")],
    DataType.FP32: [-0.0, 1e-45, float("inf")],
    DataType.FP64: [-0.0, 5e-324, float("-inf")],
    DataType.BF16: [0x3F80, 0xFFC1, 0],
}


@pytest.mark.parametrize("name", backend_names())
def test_every_backend_takes_part(name: str) -> None:
    assert name in NAMES, f"write tests/support/backend_cases/{name}.py"


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def case(name: str) -> ModuleType:
    return a_case(name)


@pytest.fixture(autouse=True)
def _stand_ins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    callspec = getattr(request.node, "callspec", None)
    name = callspec.params.get("name", "") if callspec is not None else ""
    if name in NAMES:
        case = importlib.import_module(f"tests.support.backend_cases.{name}")
        getattr(case, "stand_in", lambda _: None)(monkeypatch)


def a_case(name: str) -> ModuleType:
    """The module of backend `name`; skips the test where its library is absent."""
    case = importlib.import_module(f"tests.support.backend_cases.{name}")
    if case.LIBRARY and not is_installed(case.LIBRARY):
        pytest.skip(f"the {name} backend needs the package {case.LIBRARY}")
    if not hasattr(case, "passing"):
        pytest.skip(f"models of the {name} backend do not have the contract's tensors")
    return case


def backend_class(name: str) -> type[Backend]:
    case = importlib.import_module(f"tests.support.backend_cases.{name}")
    return load_backend(name, getattr(case, "DIRECTORY", None))


def rows(*firsts: int) -> np.ndarray[Any, Any]:
    return np.array([[first, first + 1] for first in firsts], np.float32)


def test_it_states_its_traits(name: str, case: ModuleType) -> None:
    assert isinstance(backend_class(name).traits, BackendTraits)


@pytest.mark.parametrize(("name", "datatype"), CLAIMS, ids=lambda value: getattr(value, "value", value))
async def test_every_datatype_passes_unchanged(name: str, datatype: DataType, tmp_path: Path) -> None:
    case = a_case(name)
    if datatype not in case.DATATYPES:
        pytest.skip(f"{name} does not claim {datatype.value}")
    values = VALUES.get(datatype, [0, 1, 127])
    sent = np.array([values], dtype=object if datatype is DataType.BYTES else datatype.numpy_dtype)
    async with LoadedModel(backend_class(name), tmp_path, case.passing(tmp_path, datatype)) as model:
        batch = await model.execute(a_batch(model.config, {"INPUT0": sent, "INPUT1": sent[:, ::-1]}))
    (response,) = batch.responses_to(0)
    assert [(output.name, output.datatype, output.shape) for output in response.outputs] == [
        ("OUTPUT0", datatype, (1, 3)),
        ("OUTPUT1", datatype, (1, 3)),
    ]
    assert response.outputs[0].buffer == batch.requests[0].inputs["INPUT0"].buffer
    assert response.outputs[1].buffer == batch.requests[0].inputs["INPUT1"].buffer


async def test_each_request_gets_its_own_rows(name: str, case: ModuleType, tmp_path: Path) -> None:
    async with LoadedModel(backend_class(name), tmp_path, case.passing(tmp_path, DataType.FP32)) as model:
        parts = [rows(1), rows(2, 3, 4), rows(5, 6)]
        batch = await model.execute(a_batch(model.config, *[{"INPUT0": part, "INPUT1": -part} for part in parts]))
    for index, part in enumerate(parts):
        outputs = batch.arrays_of(index)
        np.testing.assert_array_equal(outputs["OUTPUT0"], part)
        np.testing.assert_array_equal(outputs["OUTPUT1"], -part)


async def test_a_model_without_batching_sees_the_client_s_shape(name: str, case: ModuleType, tmp_path: Path) -> None:
    config = case.passing(tmp_path, DataType.INT64, max_batch_size=0)
    async with LoadedModel(backend_class(name), tmp_path, config) as model:
        sent = np.arange(3)
        batch = await model.execute(a_batch(config, {"INPUT0": sent, "INPUT1": sent}))
    np.testing.assert_array_equal(batch.arrays_of(0)["OUTPUT0"], sent)


async def test_only_the_outputs_that_were_asked_for_come_back(name: str, case: ModuleType, tmp_path: Path) -> None:
    async with LoadedModel(backend_class(name), tmp_path, case.passing(tmp_path, DataType.FP32)) as model:
        batch = await model.execute(a_batch(model.config, {"INPUT0": rows(1), "INPUT1": rows(2)}, outputs=["OUTPUT1"]))
    assert list(batch.arrays_of(0)) == ["OUTPUT1"]


@pytest.mark.parametrize("datatype", [DataType.FP32, DataType.BF16, DataType.BYTES])
async def test_tensors_without_elements_pass(name: str, case: ModuleType, tmp_path: Path, datatype: DataType) -> None:
    if datatype not in case.DATATYPES:
        pytest.skip(f"{name} does not claim {datatype.value}")
    empty = np.empty((2, 0), object if datatype is DataType.BYTES else datatype.numpy_dtype)
    async with LoadedModel(backend_class(name), tmp_path, case.passing(tmp_path, datatype)) as model:
        batch = await model.execute(a_batch(model.config, {"INPUT0": empty, "INPUT1": empty}))
    assert batch.arrays_of(0)["OUTPUT0"].shape == (2, 0)


async def test_an_optional_input_may_be_absent(name: str, case: ModuleType, tmp_path: Path) -> None:
    if not backend_class(name).traits.optional_inputs:
        pytest.skip(f"{name} has no optional inputs")
    sent = np.array([1, 2], np.float32)
    async with LoadedModel(backend_class(name), tmp_path, case.optional(tmp_path)) as model:
        without = await model.execute(a_batch(model.config, {"INPUT0": sent}))
        given = await model.execute(a_batch(model.config, {"INPUT0": sent, "INPUT1": np.ones(1, np.float32)}))
    np.testing.assert_array_equal(without.arrays_of(0)["OUTPUT0"], sent)
    np.testing.assert_array_equal(given.arrays_of(0)["OUTPUT0"], sent)


async def test_a_failure_answers_every_request_and_harms_no_later_one(
    name: str, case: ModuleType, tmp_path: Path
) -> None:
    config = case.failing(tmp_path / "failing")
    if config is None:
        pytest.skip(f"{name} has nothing that could fail")
    async with LoadedModel(backend_class(name), tmp_path / "failing", config) as model:
        for _ in range(2):
            batch = await model.execute(a_batch(config, {"INPUT0": rows(1)}, {"INPUT0": rows(2)}))
            for index in range(2):
                (response,) = batch.responses_to(index)
                assert isinstance(response.error, InferenceError)
                assert response.error.message
                assert response.final


async def test_answers_keep_their_memory(name: str, case: ModuleType, tmp_path: Path) -> None:
    """An answer may still be on its way to the client while the next batch runs, or after the model is gone."""
    async with LoadedModel(backend_class(name), tmp_path, case.passing(tmp_path, DataType.FP32)) as model:
        first = await model.execute(a_batch(model.config, {"INPUT0": rows(1), "INPUT1": rows(2)}))
        for number in range(10):
            await model.execute(a_batch(model.config, {"INPUT0": rows(number), "INPUT1": rows(9)}))
    np.testing.assert_array_equal(first.arrays_of(0)["OUTPUT0"], rows(1))


async def test_any_thread_may_execute_where_the_traits_say_so(name: str, case: ModuleType, tmp_path: Path) -> None:
    if not backend_class(name).traits.any_thread:
        pytest.skip(f"instances of {name} stay in their thread")
    async with LoadedModel(backend_class(name), tmp_path, case.passing(tmp_path, DataType.FP32)) as model:
        batch = execute(model.instance, a_batch(model.config, {"INPUT0": rows(1), "INPUT1": rows(2)}))
    np.testing.assert_array_equal(batch.arrays_of(0)["OUTPUT1"], rows(2))


async def test_two_versions_of_a_model_live_side_by_side(name: str, case: ModuleType, tmp_path: Path) -> None:
    config = case.passing(tmp_path, DataType.FP32)
    async with LoadedModel(backend_class(name), tmp_path, config) as one:
        async with LoadedModel(backend_class(name), tmp_path, config) as other:
            batches = await asyncio.gather(
                one.execute(a_batch(config, {"INPUT0": rows(1), "INPUT1": rows(1)})),
                other.execute(a_batch(config, {"INPUT0": rows(2), "INPUT1": rows(2)})),
            )
        again = await one.execute(a_batch(config, {"INPUT0": rows(3), "INPUT1": rows(3)}))
    for first, batch in enumerate([*batches, again], start=1):
        np.testing.assert_array_equal(batch.arrays_of(0)["OUTPUT0"], rows(first))


async def test_the_clock_of_an_execution_runs_forward(name: str, case: ModuleType, tmp_path: Path) -> None:
    async with LoadedModel(backend_class(name), tmp_path, case.passing(tmp_path, DataType.FP32)) as model:
        batch = await model.execute(a_batch(model.config, {"INPUT0": rows(1), "INPUT1": rows(2)}))
    assert batch.start_ns <= batch.inputs_ready_ns <= batch.outputs_ready_ns
