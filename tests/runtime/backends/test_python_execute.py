"""Plain models: what `execute` gets, what it may return, what clients see of it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import ErrorCode
from charonia_runtime.core.request import SequenceId
from tests.support.batches import RecordedBatch, a_batch, a_request
from tests.support.configs import a_config, a_tensor
from tests.support.python_models import PythonModel, an_echo_config

PREFIX = "Failed to process the request(s) for model 'echo_0', message: "
ANSWER = "pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.zeros(1, np.float32))])"


def returning(expression: str) -> str:
    return f"""
    def execute(self, requests):
        return {expression}
"""


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            "[]",
            (
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0\n"
            ),
        ),
        (f"({ANSWER},)", "Expected a list in the execute return, found type '<class 'tuple'>'."),
        (
            "[5]",
            "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'int'>'.",
        ),
        ("None", "Python model 'echo_0' released a request without sending its final response."),
        ("[None]", "Python model 'echo_0' released a request without sending its final response."),
    ],
)
async def test_a_wrong_result_fails_the_batch(tmp_path: Path, expression: str, text: str) -> None:
    async with PythonModel(tmp_path, returning(expression)) as model:
        assert await model.error() == PREFIX + text
        assert await model.error() == PREFIX + text


async def test_an_exception_shows_the_model_s_frames_innermost_first(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        self.inner()

    def inner(self):
        raise ValueError("asked to raise")
"""
    async with PythonModel(tmp_path, body) as model:
        file = tmp_path / "1" / "model.py"
        assert await model.error() == (
            f"{PREFIX}ValueError: asked to raise\n\nAt:\n  {file}(13): inner\n  {file}(10): execute\n"
        )


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("sys.exit(3)", "SystemExit: 3"),
        ("raise pb_utils.TritonModelException('pbboom')", "TritonModelException: pbboom"),
        ("pb_utils.Tensor('', np.zeros(1))", "TritonModelException: Tensor name cannot be an empty string."),
        ("raise ValueError", "ValueError: <EMPTY MESSAGE>"),
    ],
)
async def test_any_exception_is_an_answer(tmp_path: Path, statement: str, text: str) -> None:
    async with PythonModel(tmp_path, f"\n    def execute(self, requests):\n        {statement}\n") as model:
        assert await model.error() == f"{PREFIX}{text}\n\nAt:\n  {tmp_path}/1/model.py(10): execute\n"


async def test_an_exception_that_cannot_say_what_it_is(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        class Mute(Exception):
            def __str__(self):
                return 1 // 0
        raise Mute
"""
    async with PythonModel(tmp_path, body) as model:
        file = f"{tmp_path}/1/model.py"
        assert await model.error() == (
            f"{PREFIX}Mute: <MESSAGE UNAVAILABLE DUE TO ANOTHER EXCEPTION>\n\nAt:\n  {file}(13): execute\n\n"
            "MESSAGE UNAVAILABLE DUE TO EXCEPTION: ZeroDivisionError: integer division or modulo by zero\n\n"
            f"At:\n  {file}(12): __str__\n"
        )


async def test_the_module_has_triton_s_name(tmp_path: Path) -> None:
    async with PythonModel(
        tmp_path, "\n    def execute(self, requests): raise ValueError(pb_utils.__name__)\n"
    ) as model:
        assert "ValueError: triton_python_backend_utils\n" in await model.error()


async def test_a_model_without_execute_says_so(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, "\n    pass\n") as model:
        assert await model.error() == f"{PREFIX}Python model {tmp_path}/1/model.py does not implement `execute` method."


async def test_an_error_response_is_the_model_s_own_choice(tmp_path: Path) -> None:
    expression = "[pb_utils.InferenceResponse(error=pb_utils.TritonError('gone', pb_utils.TritonError.NOT_FOUND))]"
    async with PythonModel(tmp_path, returning(expression)) as model:
        (response,) = (await model.run(np.zeros(1, np.float32))).responses_to(0)
    assert response.error is not None
    assert (response.error.code, response.error.message) == (ErrorCode.NOT_FOUND, "gone")
    assert not response.failed


async def test_only_the_failing_request_of_a_batch_fails(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()) for r in requests]

    def answer(self, array):
        if array[0] < 0:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("negative"))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array * 2)], parameters={"rows": len(array)})
"""
    async with PythonModel(tmp_path, body) as model:
        batch = await model.run(np.float32([1]), np.float32([-1]), np.float32([3]))
    assert batch.arrays_of(0)["OUT"] == 2
    assert batch.responses_to(0)[0].parameters == {"rows": 1}
    assert batch.responses_to(1)[0].error is not None
    assert batch.arrays_of(2)["OUT"] == 6


async def test_a_model_sees_everything_of_a_request(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        r = requests[0]
        seen = [r.request_id(), r.correlation_id(), r.flags(), r.timeout(), r.parameters(),
                sorted(r.requested_output_names()), r.trace().get_context(), r.is_cancelled()]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([json.dumps(seen)], np.object_))])]
"""
    head = "import json\nimport numpy as np\nimport triton_python_backend_utils as pb_utils\nclass TritonPythonModel:\n"
    config = an_echo_config(DataType.BYTES)
    async with PythonModel(tmp_path, body, head=head, config=config) as model:

        async def seen(**changes: object) -> list[object]:
            request = replace(a_request(config, {"IN": np.array([b"x"], object)}), **changes)  # type: ignore[arg-type]
            batch = await model.execute(RecordedBatch(config, [request]))
            found: list[object] = json.loads(batch.arrays_of(0)["OUT"][0])
            return found

        assert await seen() == ["", 0, 0, 0, "{}", ["OUT"], None, False]
        assert await seen(
            id="ä1",
            sequence=SequenceId("text", start=True),
            timeout_us=1 << 40,
            parameters={"x": "y", "n": 3, "b": True, "f": 1.5},
            cancelled=True,
        ) == ["ä1", "text", 1, 1 << 40, '{"x":"y","n":3,"b":true,"f":1.5}', ["OUT"], None, True]
        assert (await seen(sequence=SequenceId((1 << 64) - 1, end=True)))[1:3] == [(1 << 64) - 1, 2]
        assert (await seen(id="long" * 20_000))[0] == "long" * 20_000


@pytest.mark.parametrize("elements", [3, 5000, 200_000, 3_000_000])
async def test_tensors_of_every_size_pass(tmp_path: Path, elements: int) -> None:
    """Inside the message, in the first segment, in one that is added, and copied beside the event loop."""
    body = """
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy() + 1)]) for r in requests]
"""
    async with PythonModel(tmp_path, body) as model:
        sent = np.arange(elements, dtype=np.float32)
        for _ in range(3):
            batch = await model.run(sent, sent * 2)
            np.testing.assert_array_equal(batch.arrays_of(0)["OUT"], sent + 1)
            np.testing.assert_array_equal(batch.arrays_of(1)["OUT"], sent * 2 + 1)
            del batch


async def test_inputs_may_come_back_and_be_changed_in_place(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        answers = []
        for r in requests:
            array = r.inputs()[0].as_numpy()
            array += 1
            answers.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("OUT", array), pb_utils.Tensor("OUT", array[10:20]), r.inputs()[0],
            ]))
        return answers
"""
    config = an_echo_config(outputs=(a_tensor("OUT", DataType.FP32, -1), a_tensor("IN", DataType.FP32, -1)))
    async with PythonModel(tmp_path, body, config=config) as model:
        sent = np.arange(50_000, dtype=np.float32)
        kept = []
        for round_ in range(5):
            batch = await model.run(sent + round_)
            kept.append(batch.responses_to(0)[0].outputs)
        for round_, (whole, piece, original) in enumerate(kept):
            np.testing.assert_array_equal(whole.as_numpy(), sent + round_ + 1)
            np.testing.assert_array_equal(piece.as_numpy(), (sent + round_ + 1)[10:20])
            assert original.name == "IN"
            np.testing.assert_array_equal(original.as_numpy(), sent + round_ + 1)


async def test_outputs_are_passed_on_as_the_model_made_them(tmp_path: Path) -> None:
    """All that the configuration names, however often; others are dropped."""
    expression = (
        "[pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array(3.0)), pb_utils.Tensor('EXTRA', np.zeros(1)), "
        "pb_utils.Tensor('OUT', np.asfortranarray([[1, 2], [3, 4]])), pb_utils.Tensor('OUT', np.zeros((0, 2)))])]"
    )
    async with PythonModel(tmp_path, returning(expression)) as model:
        (response,) = (await model.run(np.zeros(1, np.float32))).responses_to(0)
    assert [(tensor.name, tensor.datatype, tensor.shape) for tensor in response.outputs] == [
        ("OUT", DataType.FP64, ()),
        ("OUT", DataType.INT64, (2, 2)),
        ("OUT", DataType.FP64, (0, 2)),
    ]
    assert response.outputs[1].as_numpy().tolist() == [[1, 2], [3, 4]]


async def test_objects_become_bytes(tmp_path: Path) -> None:
    expression = "[pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([5, None, b'x', 'é'], np.object_))])]"
    async with PythonModel(tmp_path, returning(expression)) as model:
        batch = await model.run(np.zeros(1, np.float32))
    assert batch.arrays_of(0)["OUT"].tolist() == [b"5", b"None", b"x", "é".encode()]


async def test_a_reshape_is_between_client_and_model(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        arrays = [r.inputs()[0].as_numpy() for r in requests]
        assert all(array.shape[1:] == (4,) for array in arrays), arrays[0].shape
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]) for array in arrays]
"""
    config = a_config(
        "echo",
        inputs=(a_tensor("IN", DataType.FP32, 2, 2, reshape=(4,)),),
        outputs=(a_tensor("OUT", DataType.FP32, 4, 1, reshape=(4,)),),
    )
    async with PythonModel(tmp_path, body, config=config) as model:
        batch = await model.execute(a_batch(config, {"IN": np.zeros((3, 2, 2), np.float32)}))
    assert batch.arrays_of(0)["OUT"].shape == (3, 4, 1)


async def test_coroutines_run_to_their_end(tmp_path: Path) -> None:
    body = """
    async def execute(self, requests):
        import asyncio
        values = await asyncio.gather(*(self.answer(r) for r in requests))
        return list(values)

    async def answer(self, request):
        import asyncio
        await asyncio.sleep(0.001)
        array = request.inputs()[0].as_numpy()
        if array[0] < 0:
            raise ValueError("negative")
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])
"""
    async with PythonModel(tmp_path, body) as model:
        for value in (1, 2):
            batch = await model.run(np.float32([value]), np.float32([value * 2]))
            assert batch.arrays_of(1)["OUT"] == value * 2
        assert "ValueError: negative" in await model.error(np.float32([-1]))


async def test_every_request_is_counted_once_for_the_execution(tmp_path: Path) -> None:
    async with PythonModel(tmp_path) as model:
        batch = await model.run(np.zeros(3, np.float32))
    assert batch.start_ns <= batch.inputs_ready_ns <= batch.outputs_ready_ns


async def test_strings_that_are_cut_short_are_the_client_s_mistake(tmp_path: Path) -> None:
    config = an_echo_config(DataType.BYTES)
    async with PythonModel(tmp_path, config=config) as model:
        request = a_request(config, {"IN": np.array([b"whole"], object)})
        request.inputs["IN"].data = memoryview(bytes(request.inputs["IN"].buffer)[:-2])
        (response,) = (await model.execute(RecordedBatch(config, [request]))).responses_to(0)
    assert response.error is not None
    assert response.error.reason == (
        "Invalid argument: incomplete string data for inference input 'IN', expecting string of length 5 but only 3 "
        "bytes available"
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
async def test_models_start_processes_by_every_method(tmp_path: Path, method: str) -> None:
    head = """
import multiprocessing
import numpy as np
import triton_python_backend_utils as pb_utils


def double(number):
    return float(number * pb_utils.triton_string_to_numpy("TYPE_FP32")(2))


class TritonPythonModel:
"""
    body = f"""
    def execute(self, requests):
        with multiprocessing.get_context("{method}").Pool(1) as pool:
            doubled = pool.map_async(double, requests[0].inputs()[0].as_numpy().tolist()).get(30)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32(doubled))])]
"""
    async with PythonModel(tmp_path, body, head=head) as model:
        batch = await model.run(np.float32([1, 2]))
    assert batch.arrays_of(0)["OUT"].tolist() == [2, 4]


async def test_free_shared_memory_is_told(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        from c_python_backend_utils import shared_memory
        assert shared_memory is pb_utils.shared_memory
        free = shared_memory.free_memory()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([free]))])]
"""
    async with PythonModel(tmp_path, body) as model:
        batch = await model.run(np.float32([1]))
    assert 0 < batch.arrays_of(0)["OUT"][0] <= 1 << 20


async def test_the_traceback_of_an_exception_is_kept_for_the_log(tmp_path: Path) -> None:
    body = """
    def execute(self, requests):
        try:
            self.inner()
        except KeyError as error:
            raise ValueError("outer") from error

    def inner(self):
        raise KeyError("inner")
"""
    async with PythonModel(tmp_path, body) as model:
        (response,) = (await model.run(np.float32([1]))).responses_to(0)
    assert response.error is not None
    text = response.error.traceback_text
    assert 'raise KeyError("inner")' in text
    assert text.endswith("ValueError: outer")
    assert "charonia_runtime" not in text
    assert text not in response.error.message
