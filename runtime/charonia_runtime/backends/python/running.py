"""The batches that a child runs: packed for it, and answered from its frames."""

import json
import logging
import struct
from collections.abc import Callable
from functools import partial

from charonia_runtime.backends.python.output_check import OutputCheck
from charonia_runtime.backends.python.stub_process import StubProcess
from charonia_runtime.core.batch import Batch
from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import ERROR_CLASSES, ErrorCode, InferenceError, InternalError
from charonia_runtime.core.request import InferenceRequest, Trace
from charonia_runtime.core.reshaping import backend_shape, client_shape
from charonia_runtime.core.scheduling import SequenceBatching
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.ipc.arena import Block
from charonia_runtime.ipc.frames import Frame, FrameKind, encode_frame
from charonia_runtime.ipc.messages import HELD_BACK, TIMES, RequestRecord, ResponseRecord, Status, pack_request
from charonia_runtime.ipc.packing import Packer

logger = logging.getLogger(__name__)

FINAL_FLAG = 1
RESPONSE_FLAG = 2
_TARGET = struct.Struct("<II")
_NUMBERS = 1 << 32


class RunningBatch:
    """A batch that is with the child. `indexes` are the batch's indexes of the requests that were sent."""

    __slots__ = ("batch", "borrowed", "done", "executed", "indexes", "number", "packer")

    def __init__(self, batch: Batch, done: Callable[[], None], number: int, packer: Packer) -> None:
        self.batch = batch
        self.done = done
        self.number = number
        self.packer = packer
        self.indexes: list[int] = []
        self.executed = False
        self.borrowed: dict[int, memoryview] = {}
        """Input blocks that came back as outputs, by their place in `packer.blocks`."""

    def frame(self) -> bytes:
        return self.packer.frame(FrameKind.BATCH, entry=len(self.indexes), number=self.number)


class RunningBatches:
    """All batches of one child. Used on the event loop."""

    def __init__(self, name: str, config: ModelConfig, stub: StubProcess, outputs: OutputCheck) -> None:
        stub.messages.check = outputs.check
        self._name = name
        self._config = config
        self._stub = stub
        self._next = 0
        self._batches: dict[int, RunningBatch] = {}
        self._input_shapes = {
            spec.name: partial(backend_shape, spec, batches=config.batches)
            for spec in config.inputs
            if spec.reshape is not None
        }
        self._output_names = frozenset([spec.name for spec in config.outputs])
        """What else a model makes is dropped, as in Triton."""
        self._reshaped_outputs = {spec.name: spec for spec in config.outputs if spec.reshape is not None}
        self._iterative = isinstance(config.scheduling, SequenceBatching) and config.scheduling.iterative
        self._prefix = f"Failed to process the request(s) for model '{name}', message: "

    @property
    def busy(self) -> bool:
        """Whether `execute` runs."""
        return any(not running.executed for running in self._batches.values())

    @property
    def owes(self) -> bool:
        """Whether a request is not answered."""
        return bool(self._batches)

    @property
    def callers(self) -> tuple[str, ...]:
        """See `called_models.Caller`."""
        for running in self._batches.values():
            if not running.executed:
                longest: tuple[str, ...] = max((request.callers for request in running.batch.requests), key=len)
                return (*longest, self._config.name)
        return ()

    def trace(self, batch: int, index: int) -> Trace | None:
        """See `called_models.Caller`."""
        request = self._find_request(batch, index)
        return None if request is None else request.trace

    def add(self, batch: Batch, done: Callable[[], None]) -> RunningBatch:
        """Pack a batch. A request that there is no memory for is answered with the error."""
        number = self._next = (self._next + 1) % _NUMBERS
        packer = self._stub.packer()
        running = RunningBatch(batch, done, number, packer)
        for index in batch.unanswered:
            mark = packer.mark()
            request = batch.requests[index]
            if request.cancelled:
                self._stub.note_cancelled()
            try:
                pack_request(packer, _record(request), self._input_shapes)
            except InternalError as error:
                packer.undo_to(mark)
                batch.respond_error(index, error.with_prefix(self._prefix))
            else:
                running.indexes.append(index)
        self._batches[number] = running
        return running

    def finish(self, running: RunningBatch) -> None:
        """`execute` is over: the instance can take the next batch. What is not answered yet comes later."""
        self._release(running)
        if not running.executed:
            running.executed = True
            running.done()

    def forget(self, running: RunningBatch) -> None:
        """The child will never see the batch."""
        self._batches.pop(running.number, None)

    def take_unstarted(self) -> list[tuple[Batch, Callable[[], None]]]:
        """The child is gone: the batches that it had been sent but not begun, which may run elsewhere."""
        last = self._stub.last_started
        unstarted = [
            running
            for running in self._batches.values()
            if not running.executed and 0 < (running.number - last) % _NUMBERS < _NUMBERS // 2
        ]
        for running in unstarted:
            del self._batches[running.number]
        return [(running.batch, running.done) for running in unstarted]

    def fail(self, error: InferenceError) -> list[Callable[[], None]]:
        """The child is gone: answer everything with `error`. Gives back who waits for the instance to be free."""
        owed = []
        for running in self._batches.values():
            running.batch.fail(error)
            running.batch.flush()
            if not running.executed:
                owed.append(running.done)
        self._batches.clear()
        return owed

    # --- frames ---

    def answer(self, frame: Frame) -> None:
        """`execute` returned; the frame has all its responses."""
        running = self._batches.get(frame.number)
        if running is None:
            return
        batch, body = running.batch, frame.body
        _note_times(batch, body)
        if frame.entry:
            view = partial(self._view, running)
            layouts = self._stub.messages.response_layouts(frame, frame.entry)
            for index, layout in zip(running.indexes, layouts, strict=False):
                if layout.status == Status.RESCHEDULE:
                    self._reschedule(batch, index)
                elif layout.status != Status.NOTHING:
                    self._send(running, index, layout.read(body, view), final=True)
        self.finish(running)

    def respond(self, frame: Frame) -> None:
        """A response, or the final flag, that the model sent by itself."""
        running = self._batches.get(frame.number)
        if running is None:
            return
        index = running.indexes[frame.entry]
        final = bool(frame.flags & FINAL_FLAG)
        if frame.flags & RESPONSE_FLAG:
            response = self._stub.messages.response(frame, self._stub.segments.borrow)
            self._send(running, index, response, final=final)
        else:
            running.batch.end(index)
        self._leave(running)

    def fail_one(self, frame: Frame) -> None:
        """`execute` raised or returned what it must not: its requests fail, those of no other batch."""
        running = self._batches.get(frame.number)
        failure = json.loads(bytes(frame.body))
        code, trace = ErrorCode(failure["code"]), str(failure["traceback"])
        if running is None or running.batch.complete:
            logger.error("%sraised after the last response: %s\n%s", self._prefix, failure["error"], trace)
        if running is None:
            return
        running.batch.mark_outputs_ready()
        # What the client did wrong is said as the server says it; only the model's own mistakes name the model.
        prefix = self._prefix if code is ErrorCode.INTERNAL else ""
        error = ERROR_CLASSES[code](prefix + failure["error"])
        error.traceback_text = trace
        running.batch.fail(error)
        if running.executed:
            running.batch.flush()
        self.finish(running)

    def abandon(self, frame: Frame) -> None:
        """The model has forgotten a request without a final response: nobody can send one any more."""
        running = self._batches.get(frame.number)
        if running is None:
            return
        error = f"{self._prefix}Python model '{self._name}' released a request without sending its final response."
        running.batch.respond_error(running.indexes[frame.entry], InternalError(error))
        self._leave(running)

    def tell_cancelled(self, frame: Frame) -> None:
        """Tell the child which of its requests were cancelled: batch and index of each."""
        pairs = [
            _TARGET.pack(running.number, entry)
            for running in self._batches.values()
            for entry, index in enumerate(running.indexes)
            if running.batch.requests[index].cancelled
        ]
        self._stub.send(encode_frame(FrameKind.REPLY, pairs, number=frame.number))

    def when_room(self, frame: Frame) -> None:
        """Answer the child once the client of the request that the frame names can take more responses."""
        request = self._request(frame)
        if request is None or request.flow is None:
            self._reply(frame.number)
        else:
            request.flow.when_ready(partial(self._reply, frame.number))

    def _reply(self, number: int) -> None:
        self._stub.send(encode_frame(FrameKind.REPLY, number=number))

    def _request(self, frame: Frame) -> InferenceRequest | None:
        return self._find_request(*_TARGET.unpack_from(frame.body))

    def _find_request(self, number: int, entry: int) -> InferenceRequest | None:
        running = self._batches.get(number)
        return None if running is None else running.batch.requests[running.indexes[entry]]

    def _reschedule(self, batch: Batch, index: int) -> None:
        if self._iterative:
            batch.reschedule(index)
        else:
            text = f"{self._prefix}only models with iterative sequences can reschedule requests."
            batch.respond_error(index, InternalError(text))

    def _leave(self, running: RunningBatch) -> None:
        """Let a response go at once; that it was the last one may end the batch."""
        running.batch.flush()
        if running.executed and running.batch.complete:
            self.finish(running)

    def _send(self, running: RunningBatch, index: int, response: ResponseRecord, *, final: bool) -> None:
        if response.status == Status.ERROR:
            error = ERROR_CLASSES[response.code](response.message)
            running.batch.respond_error(index, error, final=final, chosen_by_model=True)
            return
        names = self._output_names
        outputs = [tensor for tensor in response.outputs if tensor.name in names]
        if self._reshaped_outputs:
            try:
                outputs = [self._client_tensor(tensor) for tensor in outputs]
            except InternalError as error:
                running.batch.respond_error(index, error, final=final)
                return
        running.batch.respond(index, outputs, parameters=response.parameters, final=final)

    def _client_tensor(self, tensor: Tensor) -> Tensor:
        spec = self._reshaped_outputs.get(tensor.name)
        if spec is None:
            return tensor
        shape = client_shape(spec, tensor.shape, batches=self._config.batches)
        return Tensor(tensor.name, tensor.datatype, shape, tensor.data)

    # --- memory ---

    def _view(self, running: RunningBatch, number: int, offset: int, size: int) -> memoryview:
        """Bytes of an output: the child's own, or a piece of an input that it gives back."""
        for place, block in enumerate(running.packer.blocks):
            if block.segment.number == number and block.offset <= offset and offset + size <= block.offset + block.size:
                whole = running.borrowed.get(place)
                if whole is None:
                    whole = running.borrowed[place] = self._borrow(block)
                return whole[offset - block.offset : offset - block.offset + size]
        return self._stub.segments.borrow(number, offset, size)

    def _borrow(self, block: Block) -> memoryview:
        return self._stub.segments.borrow(block.segment.number, block.offset, block.size)

    def _release(self, running: RunningBatch) -> None:
        if running.batch.complete and self._batches.pop(running.number, None) is not None:
            self._free(running)

    def _free(self, running: RunningBatch) -> None:
        """Inputs that are outputs now are freed with the last view of them, the others at once."""
        arena = self._stub.arena
        for place, block in enumerate(running.packer.blocks):
            if place in running.borrowed:
                arena.lend(block)
            else:
                arena.free(block)
        running.borrowed.clear()


def _note_times(batch: Batch, body: memoryview) -> None:
    """When the model began and ended, by the child's clock, which is ours; it stands at the end of an answer."""
    if len(body) >= TIMES.size:
        begin_ns, end_ns = TIMES.unpack_from(body, len(body) - TIMES.size)
        if batch.start_ns <= begin_ns <= end_ns:
            batch.inputs_ready_ns, batch.outputs_ready_ns = begin_ns, end_ns


def _record(request: InferenceRequest) -> RequestRecord:
    record = RequestRecord(
        request.id,
        list(request.inputs.values()),
        tuple([output.name for output in request.outputs]),
        timeout_us=request.timeout_us,
    )
    if request.sequence is not None:
        sequence = request.sequence
        record.flags = int(sequence.start) | int(sequence.end) << 1
        record.correlation_id = sequence.correlation_id
    if request.flow is not None:
        record.flags |= HELD_BACK
    if request.parameters:
        record.rest = {"parameters": request.parameters}
    if request.trace is not None:
        record.rest = {**record.rest, "trace": request.trace.context()}
    if request.wants_nothing:
        record.rest = {"wants_nothing": True}
    return record
