"""The child's main loop: import the model, complete its configuration or initialize it, then run batch after batch."""

import asyncio
import gc
import json
import os
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from functools import partial
from threading import Thread, get_ident
from typing import Any

from charonia_runtime.core.errors import ErrorCode, InferenceError
from charonia_runtime.ipc import lifeline
from charonia_runtime.ipc.channel import BlockingChannel
from charonia_runtime.ipc.frames import Frame, FrameKind
from charonia_runtime.ipc.messages import TIMES
from charonia_runtime.stub import triton_python_backend_utils
from charonia_runtime.stub.answers import WrongResultError, answer, check_result
from charonia_runtime.stub.context import Execution, Phase, context
from charonia_runtime.stub.exceptions import describe, model_traceback
from charonia_runtime.stub.readiness import ReadinessCheck, answer_questions
from charonia_runtime.stub.request import InferenceRequest
from charonia_runtime.stub.session import Session
from charonia_runtime.stub.user_model import UnusableModelError, UserModel, auto_complete, import_model


def run(  # noqa: PLR0917
    name: str, channel: int, lifeline_pipe: int, questions: int, segment: int, segment_bytes: int, growth_bytes: int
) -> None:
    """Serve until the server says to end. `channel`, the two pipes and `segment` are inherited descriptors."""
    lifeline.hold(lifeline_pipe)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for descriptor in (channel, lifeline_pipe, questions, segment):
        os.set_inheritable(descriptor, False)
    own_end = socket.socket(fileno=channel)
    session = Session(BlockingChannel(own_end), name, segment=segment, size=segment_bytes, growth_bytes=growth_bytes)
    context.session = session
    os.register_at_fork(after_in_child=lambda: os.close(own_end.detach()))
    for alias in ("triton_python_backend_utils", "c_python_backend_utils"):
        sys.modules[alias] = triton_python_backend_utils
    triton_python_backend_utils.__name__ = "triton_python_backend_utils"
    session.send(FrameKind.STARTED)
    Worker(session, questions).serve()


class Worker:
    """What the server's commands do."""

    def __init__(self, session: Session, questions: int) -> None:
        """`questions` is the pipe of the server's questions whether the model is ready."""
        self._session = session
        self._questions = questions
        self._module: Any = None
        self._model = UserModel.missing()

    def serve(self) -> None:
        """Obey commands until FINALIZE."""
        while True:
            frame = self._session.wait(self._session.commands)
            if frame.kind == FrameKind.BATCH:
                self._execute(frame)
            elif frame.kind == FrameKind.AUTO_COMPLETE:
                self._auto_complete(_document(frame))
            elif frame.kind == FrameKind.INITIALIZE:
                self._initialize(_document(frame))
                if self._model.asynchronous:
                    asyncio.run(self._serve_coroutines())
                    self._finalize()
                    return
            elif frame.kind == FrameKind.FINALIZE:
                self._finalize()
                return

    # --- loading ---

    def _auto_complete(self, document: dict[str, Any]) -> None:
        try:
            self._import(document)
            completed = auto_complete(self._module, document["config"], document["model_name"])
        except BaseException as error:  # noqa: BLE001  # SystemExit, too: the server hears of it
            self._session.send(FrameKind.COMPLETED, {"error": _text(error)})
        else:
            self._session.send(FrameKind.COMPLETED, {"config": completed})

    def _initialize(self, document: dict[str, Any]) -> None:
        context.phase = Phase.INITIALIZE
        context.instance_name = document["instance_name"]
        context.decoupled = document["decoupled"]
        context.iterative = document["iterative"]
        context.output_names = tuple(document["output_names"])
        try:
            self._import(document)
            self._model = UserModel.initialize(self._module, document["arguments"])
        except BaseException as error:  # noqa: BLE001  # SystemExit, too: the server hears of it
            self._session.send(FrameKind.INITIALIZED, {"error": describe(error)})
        else:
            gc.freeze()  # what the model has loaded stays: no collection need look at it again
            context.phase = Phase.EXECUTE
            if not self._model.asynchronous:
                self._answer_questions()
            self._session.send(FrameKind.INITIALIZED, {"has_check": self._model.check is not None})

    def _import(self, document: dict[str, Any]) -> None:
        context.model_name = document["model_name"]
        context.version_directory = document["version_directory"]
        if self._module is None:
            self._module = import_model(document["model_file"], document["module_name"], document["search_paths"])

    def _answer_questions(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Have a thread ask the model's `is_ready`, where it has one, when the server asks."""
        if self._model.check is not None:
            answer = partial(answer_questions, self._session, self._questions, ReadinessCheck(self._model.check, loop))
            Thread(target=answer, name="is_ready", daemon=True).start()

    def _finalize(self) -> None:
        context.phase = Phase.FINALIZE
        try:
            self._model.finalize()
        except BaseException:  # noqa: BLE001  # logged only, as in Triton
            traceback.print_exc()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        self._session.send(FrameKind.FINALIZED)

    # --- batches ---

    def _execute(self, frame: Frame) -> None:
        requests = self._receive(frame)
        context.execution = Execution(get_ident(), frame.number) if context.decoupled else None
        begin_ns = time.monotonic_ns()
        try:
            result = self._model.execute(requests)
            times = TIMES.pack(begin_ns, time.monotonic_ns())
            check_result(result, requests)
            answer(self._session, frame.number, requests, result, times)
        except BaseException as error:  # noqa: BLE001  # SystemExit, too: the requests get it as their answer
            self._fail(frame.number, requests, error)
        context.execution = None

    async def _serve_coroutines(self) -> None:
        """
        Run the model's coroutines on this thread's event loop, those of decoupled models side by side.

        Not so where requests may come again: that is decided when the coroutine ends, and nothing of their sequences
        can run before.
        """
        in_turn = context.iterative or not context.decoupled
        loop = asyncio.get_running_loop()
        self._answer_questions(loop)
        arrived: asyncio.Queue[None] = asyncio.Queue()
        commands = self._session.commands
        self._session.watch(commands, lambda: loop.call_soon_threadsafe(arrived.put_nowait, None))
        tasks: set[asyncio.Task[None]] = set()
        while True:
            await arrived.get()
            frame = commands.frames.popleft()
            if frame.kind == FrameKind.FINALIZE:
                return
            if in_turn:
                await self._execute_coroutine(frame)
                continue
            task = loop.create_task(self._execute_coroutine(frame, answered=True))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            self._session.send(FrameKind.ANSWER, number=frame.number)

    async def _execute_coroutine(self, frame: Frame, *, answered: bool = False) -> None:
        """`answered`: the server was told that the execution is over."""
        requests = self._receive(frame)
        begin_ns = time.monotonic_ns()
        try:
            result = await self._model.execute_async(requests)
            times = TIMES.pack(begin_ns, time.monotonic_ns())
            check_result(result, requests)
            if not answered:
                answer(self._session, frame.number, requests, result, times)
        except BaseException as error:  # noqa: BLE001  # SystemExit, too: the requests get it as their answer
            self._fail(frame.number, requests, error)

    def _receive(self, frame: Frame) -> list[InferenceRequest]:
        session = self._session
        layouts, view = session.requests(frame), session.view_input
        requests = [InferenceRequest.received(layout, frame, index, view) for index, layout in enumerate(layouts)]
        if context.decoupled:
            for request in requests:
                request.exchange()  # it tells the server if the request is forgotten without an answer
        return requests

    def _fail(self, number: int, requests: list[InferenceRequest], error: BaseException) -> None:
        for request in requests:
            request.close()
        code = error.code if isinstance(error, InferenceError) else ErrorCode.INTERNAL
        failure = {"error": _text(error), "code": code.value, "traceback": model_traceback(error)}
        self._session.send(FrameKind.FAILURE, failure, number=number)


def _text(error: BaseException) -> str:
    """What the server says of an error: our own words as they are, the model's exceptions with their place."""
    return str(error) if isinstance(error, InferenceError | UnusableModelError | WrongResultError) else describe(error)


def _document(frame: Frame) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(frame.body))
    return found
