"""Executions: what goes in and what comes out."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime
import pytest

from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import InstanceKind, Placement
from charonia_runtime.core.errors import InternalError
from tests.support import onnx_models
from tests.support.batches import a_batch
from tests.support.configs import a_tensor
from tests.support.loaded_models import execute
from tests.support.onnx_loading import FP32, Load, blank, error_of
from tests.support.onnx_models import a_model, a_node, a_value


class TestExecution:
    def test_requests_of_a_batch_run_once(self, load: Load) -> None:
        loaded = load(onnx_models.addition())
        parts = [np.full((count, 4), count, np.float32) for count in (1, 2, 1)]
        batch = loaded.run(*[{"A": part, "B": part * 10} for part in parts])
        for index, part in enumerate(parts):
            outputs = batch.arrays_of(index)
            np.testing.assert_array_equal(outputs["SUM"], part * 11)
            np.testing.assert_array_equal(outputs["DIFFERENCE"], part * -9)

    def test_results_are_those_of_the_library(self, load: Load) -> None:
        weights = np.random.default_rng(1).normal(size=(64, 32)).astype(np.float32)
        model = a_model(
            [a_node("MatMul", ["INPUT", "WEIGHTS"], ["HIDDEN"]), a_node("Softmax", ["HIDDEN"], ["OUTPUT"])],
            [a_value("INPUT", ["n", 64])],
            [a_value("OUTPUT", ["n", 32])],
            WEIGHTS=weights,
        )
        sent = np.random.default_rng(2).normal(size=(3, 64)).astype(np.float32)
        (expected,) = onnxruntime.InferenceSession(model).run(None, {"INPUT": sent})
        np.testing.assert_array_equal(load(model).run({"INPUT": sent}).arrays_of(0)["OUTPUT"], expected)

    def test_outputs_that_are_not_configured_are_not_computed(self, load: Load) -> None:
        outputs = (a_tensor("SUM", FP32, 4),)
        sent = np.ones((1, 4), np.float32)
        loaded = load(onnx_models.addition(), blank(outputs=outputs))
        assert list(loaded.run({"A": sent, "B": sent}).arrays_of(0)) == ["SUM"]

    def test_an_absent_optional_input_has_the_model_s_default(self, load: Load) -> None:
        inputs = (a_tensor("INPUT", FP32, -1), a_tensor("FACTOR", FP32, 1, optional=True))
        loaded = load(onnx_models.scaling(), blank(inputs=inputs, outputs=(a_tensor("OUTPUT", FP32, -1),)))
        sent = np.array([1, 2], np.float32)
        assert loaded.run({"INPUT": sent}).arrays_of(0)["OUTPUT"].tolist() == [2, 4]
        factor = np.array([10], np.float32)
        assert loaded.run({"INPUT": sent, "FACTOR": factor}).arrays_of(0)["OUTPUT"].tolist() == [10, 20]

    def test_a_scalar_goes_in_and_out_as_configured(self, load: Load) -> None:
        tensors = {"inputs": (a_tensor("INPUT", FP32, 1, 1),), "outputs": (a_tensor("OUTPUT", FP32, 1, 1),)}
        loaded = load(onnx_models.identity(dims=[]), blank(**tensors))
        assert loaded.run({"INPUT": np.array([[3]], np.float32)}).arrays_of(0)["OUTPUT"].tolist() == [[3]]

    def test_reshapes_are_between_client_and_model(self, load: Load) -> None:
        tensors = {
            "inputs": (a_tensor("INPUT", FP32, 2, 2, reshape=(4,)),),
            "outputs": (a_tensor("OUTPUT", FP32, 2, 2, reshape=(4,)),),
        }
        loaded = load(onnx_models.identity(dims=["n", 4]), blank(max_batch_size=4, **tensors))
        sent = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
        np.testing.assert_array_equal(loaded.run({"INPUT": sent}).arrays_of(0)["OUTPUT"], sent)

    def test_a_batch_dimension_alone_is_reached_by_an_empty_reshape(self, load: Load) -> None:
        batch = load(onnx_models.identity(dims=["n"])).run(
            {"INPUT": np.array([[1]], np.float32)}, {"INPUT": np.array([[2], [3]], np.float32)}
        )
        assert batch.arrays_of(0)["OUTPUT"].tolist() == [[1]]
        assert batch.arrays_of(1)["OUTPUT"].tolist() == [[2], [3]]

    def test_dynamic_shapes_differ_between_batches(self, load: Load) -> None:
        loaded = load(onnx_models.identity())
        for width in (1, 7, 3):
            sent = np.ones((1, width), np.float32)
            np.testing.assert_array_equal(loaded.run({"INPUT": sent}).arrays_of(0)["OUTPUT"], sent)

    def test_what_the_library_refuses_is_an_internal_error(self, load: Load, capfd: pytest.CaptureFixture[str]) -> None:
        model = a_model(
            [a_node("Reshape", ["INPUT", "SHAPE"], ["OUTPUT"])],
            [a_value("INPUT", ["n", "m"])],
            [a_value("OUTPUT", ["n", 7])],
            SHAPE=np.array([-1, 7]),
        )
        batch = load(model).run({"INPUT": np.ones((1, 3), np.float32)}, {"INPUT": np.ones((1, 3), np.float32)})
        for index in range(2):
            error = error_of(batch, index)
            assert isinstance(error, InternalError)
            assert re.match(
                r"onnx runtime error \d+: Non-zero status code returned while running Reshape", error.message
            )

    def test_too_few_output_rows_fail_the_requests_without_any(self, load: Load) -> None:
        model = a_model(
            [a_node("Slice", ["INPUT", "START", "END"], ["OUTPUT"])],
            [a_value("INPUT", ["n", 1])],
            [a_value("OUTPUT", ["k", 1])],
            START=np.array([0]),
            END=np.array([1]),
        )
        one = np.ones((1, 1), np.float32)
        batch = load(model).run({"INPUT": one}, {"INPUT": one})
        assert batch.arrays_of(0)["OUTPUT"].tolist() == [[1]]
        assert error_of(batch, 1).message == (
            "[request id: <id_unknown>] failed to split the output tensor 'OUTPUT' in responses: expected batch size "
            "of at least 2 in model output, got 1"
        )

    def test_instances_share_a_session_and_run_at_the_same_time(self, load: Load) -> None:
        loaded = load(onnx_models.addition())
        other = loaded.backend.create_instance(Placement("m_1", InstanceKind.CPU))
        assert other._session is loaded.instance._session

        def repeat(instance: Any, number: int) -> bool:
            sent = np.full((1, 4), number, np.float32)
            batches = [execute(instance, a_batch(loaded.config, {"A": sent, "B": sent})) for _ in range(200)]
            return all((batch.arrays_of(0)["SUM"] == 2 * number).all() for batch in batches)

        with ThreadPoolExecutor(2) as threads:
            assert all(threads.map(repeat, (loaded.instance, other), (1, 5)))

    def test_a_request_s_memory_reaches_the_model_without_a_copy(self, load: Load) -> None:
        """`Identity` on the CPU gives a copy, but the input of the session is the request's own memory."""
        loaded = load(onnx_models.identity())
        batch = a_batch(loaded.config, {"INPUT": np.ones((1, 1024), np.float32)})
        fed = loaded.instance._feed(batch, "INPUT")
        assert np.shares_memory(fed, np.frombuffer(batch.requests[0].inputs["INPUT"].buffer, np.float32))


def test_closing_frees_the_session(load: Load) -> None:
    import gc
    import weakref

    loaded = load(onnx_models.addition())
    session = weakref.ref(loaded.instance._session)
    loaded.instance.close()
    loaded.backend.close()
    gc.collect()
    assert session() is None


def test_errors_of_the_model_do_not_stay_in_the_way_of_others(load: Load) -> None:
    """An error in a batch's inputs answers the whole batch; the engine's admission keeps such requests out."""
    loaded = load(onnx_models.addition())
    batch = loaded.run({"A": np.ones((1, 4), np.float32), "B": np.ones((1, 3), np.float32)})
    assert isinstance(batch, Batch)
    assert error_of(batch).message.startswith("onnx runtime error ")
    sent = np.ones((1, 4), np.float32)
    np.testing.assert_array_equal(loaded.run({"A": sent, "B": sent}).arrays_of(0)["SUM"], sent * 2)
