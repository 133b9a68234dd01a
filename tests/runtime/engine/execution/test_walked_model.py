"""Long BYTES inputs are walked beside the event loop: what is answered, in which order, and what is given up."""

import threading

import pytest

from charonia_runtime.core import string_walk
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.errors import CancelledError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import SequenceId
from charonia_runtime.core.statistics import ModelStatistics
from charonia_runtime.core.string_walk import WalkedTensor, walk_strings
from charonia_runtime.core.tensor import SharedMemoryRef, Tensor
from charonia_runtime.engine.execution import walked_model
from charonia_runtime.engine.execution.admission import Admission
from charonia_runtime.engine.execution.walked_model import WalkedModel
from tests.support.configs import a_config, a_tensor
from tests.support.requests import RecordingSink, a_request

CONFIG = a_config("m", max_batch_size=0, inputs=(a_tensor("IN", DataType.BYTES, -1),))
LONG = 200_000


class Copy:
    """Checks requests as a model does, and keeps those that it accepts."""

    version = 1
    in_flight = 0

    def __init__(self, config=CONFIG, resolve=None):
        self.config = config
        self.statistics = ModelStatistics()
        self.requests = []
        self.cancelled = []
        self.closed = False
        self._admission = Admission(config, resolve)

    def submit(self, request):
        self._admission.check(request)
        self.requests.append(request)

    def cancel(self, request):
        self.cancelled.append(request)

    async def drain(self):
        pass

    async def close(self):
        self.closed = True


def empties(count=LONG, *, shape=None, data=None):
    return Tensor("IN", DataType.BYTES, shape or (count,), memoryview(bytes(4 * count)) if data is None else data)


def ask(model, tensor, **fields):
    request = a_request("m", {"IN": tensor}, **fields)
    model.submit(request)
    return request


@pytest.fixture
def gate(monkeypatch):
    """Walks wait for it in their threads."""
    opened = threading.Event()
    walk = walked_model.walk_strings

    def walk_when_open(*arguments):
        assert opened.wait(30)
        return walk(*arguments)

    monkeypatch.setattr(walked_model, "walk_strings", walk_when_open)
    yield opened
    opened.set()


@pytest.fixture
def walks(monkeypatch):
    """The threads in which tensors are walked, by the model's admission too."""
    threads = []

    def walk(*arguments):
        threads.append(threading.get_ident())
        return walk_strings(*arguments)

    monkeypatch.setattr(walked_model, "walk_strings", walk)
    monkeypatch.setattr(string_walk, "walk_strings", walk)
    return threads


async def test_a_long_input_is_walked_in_another_thread_and_only_there(walks):
    copy = Copy()
    model = WalkedModel(copy)
    request = ask(model, empties())
    assert (copy.requests, model.in_flight, copy.statistics.pending) == ([], 1, 1)
    await model.drain()
    assert copy.requests == [request]
    assert (model.in_flight, copy.statistics.pending) == (0, 0)
    assert isinstance(request.inputs["IN"], WalkedTensor)
    assert walks
    assert threading.get_ident() not in walks


async def test_few_or_short_elements_are_left_to_the_model_at_once(walks):
    copy = Copy()
    model = WalkedModel(copy)
    ask(model, empties(1000))
    ask(model, Tensor("IN", DataType.BYTES, (1,), memoryview(LONG.to_bytes(4, "little") + bytes(LONG))))
    assert len(copy.requests) == 2
    assert set(walks) == {threading.get_ident()}


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (empties(LONG, shape=(LONG + 1,)), f"expected {LONG + 1} string elements .* got {LONG}"),
        (empties(LONG, shape=(LONG - 1,)), f"unexpected number of string elements {LONG} .* expecting {LONG - 1}"),
        (empties(LONG, data=memoryview(bytes(4 * LONG - 2))), "incomplete string length indicator .* only 2 bytes"),
    ],
)
async def test_what_the_walk_finds_is_answered_as_a_refusal(tensor, text):
    sink = RecordingSink()
    model = WalkedModel(Copy())
    ask(model, tensor, sink=sink)
    await model.drain()
    with pytest.raises(InvalidArgumentError, match=text):
        await sink.response()
    assert sink.responses[0].refused


async def test_zero_rows_hide_no_elements(walks):
    """The count that is checked takes them for one row."""
    sink = RecordingSink()
    model = WalkedModel(Copy(a_config("m", inputs=(a_tensor("IN", DataType.BYTES, -1),))))
    ask(model, empties(shape=(0, LONG)), sink=sink)
    await model.drain()
    with pytest.raises(InvalidArgumentError, match="batch-size must be >= 1"):
        await sink.response()
    assert threading.get_ident() not in walks


async def test_a_cancelled_request_is_answered_at_once_and_its_walk_heard_no_more(gate):
    copy, sink = Copy(), RecordingSink()
    model = WalkedModel(copy)
    request = ask(model, empties(), sink=sink)
    model.cancel(request)
    with pytest.raises(CancelledError):
        await sink.response()
    gate.set()
    await model.drain()
    assert (copy.requests, model.in_flight, copy.statistics.pending) == ([], 0, 0)


async def test_requests_of_a_sequence_keep_their_order(gate):
    copy = Copy()
    model = WalkedModel(copy)
    first = ask(model, empties(), sequence=SequenceId(7, start=True))
    second = ask(model, empties(3), sequence=SequenceId(7))
    third = ask(model, empties(), sequence=SequenceId(7))
    fourth = ask(model, empties(3), sequence=SequenceId(7, end=True))
    other = ask(model, empties(3), sequence=SequenceId(8, start=True))
    assert copy.requests == [other]
    gate.set()
    await model.drain()
    assert copy.requests == [other, first, second, third, fourth]
    ask(model, empties(3), sequence=SequenceId(7, start=True))
    assert len(copy.requests) == 6, "nothing waits for a sequence that is through"


async def test_the_rest_of_a_sequence_goes_on_without_one_that_was_cancelled(gate):
    copy = Copy()
    model = WalkedModel(copy)
    first = ask(model, empties(), sequence=SequenceId("a", start=True))
    second = ask(model, empties(3), sequence=SequenceId("a"))
    model.cancel(first)
    assert copy.requests == [second]


async def test_closing_answers_what_is_being_walked(gate):
    copy, sink = Copy(), RecordingSink()
    model = WalkedModel(copy)
    ask(model, empties(), sink=sink)
    await model.close()
    with pytest.raises(UnavailableError, match="was not executed"):
        await sink.response()
    assert copy.closed


async def test_shared_memory_is_found_before_it_is_walked(walks):
    copy = Copy(resolve=lambda ref, *, writable: memoryview(bytes(ref.byte_size)))
    model = WalkedModel(copy, lambda ref, *, writable: memoryview(bytes(ref.byte_size)))
    request = ask(model, empties(data=SharedMemoryRef("r", 4 * LONG)))
    await model.drain()
    assert copy.requests == [request]
    assert threading.get_ident() not in walks


async def test_memory_that_is_not_there_is_refused_as_the_model_refuses_it():
    def resolve(ref, *, writable):
        raise InvalidArgumentError("no such region")

    with pytest.raises(InvalidArgumentError, match="no such region"):
        ask(WalkedModel(Copy(resolve=resolve), resolve), empties(data=SharedMemoryRef("r", 4 * LONG)))
