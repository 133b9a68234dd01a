"""What a model asks of the server: log lines, metrics, loading models and running them."""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from charonia_runtime.backends.python.called_models import CalledModels, Caller
from charonia_runtime.backends.python.model_metrics import ModelMetrics
from charonia_runtime.backends.python.stub_process import StubProcess
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.errors import InferenceError, InternalError, InvalidArgumentError, UnavailableError
from charonia_runtime.core.request import ANY_VERSION
from charonia_runtime.core.server import InferenceServer
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.ipc.frames import Frame, FrameKind, encode_frame

logger = logging.getLogger(__name__)

_LEVELS = {"INFO": logging.INFO, "WARNING": logging.WARNING, "ERROR": logging.ERROR, "VERBOSE": logging.DEBUG}


class _Nothing:
    """Implements `called_models.Caller` for a child that runs no batch."""

    callers: tuple[str, ...] = ()

    def trace(self, batch: int, index: int) -> None:
        """See `called_models.Caller`."""


class StubCalls:
    """Serves the calls of one child. `serve` may be called in the loader thread; the work is done on the event loop."""

    def __init__(self, stub: StubProcess, files: ModelFiles, model_name: str) -> None:
        self._stub = stub
        self._server = files.server
        self._call_soon = files.call_soon
        self._metrics = ModelMetrics(files.custom_metrics)
        self._models = CalledModels(stub, files.server)
        self._tasks: set[asyncio.Task[None]] = set()
        self._name = model_name
        self.caller: Caller = _Nothing()
        """What runs in the child; until an instance says so, nothing."""

    @property
    def waiting(self) -> bool:
        """Whether the child waits for the server: for other models, or for one to be loaded."""
        return self._models.waiting or bool(self._tasks)

    def serve(self, frame: Frame) -> None:
        """Take a frame that is no answer."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._pass_on(frame)
        else:
            self._serve(frame)

    def close(self) -> None:
        """The child is gone, and with it all that it held."""
        self._metrics.close()
        self._models.close()

    def _pass_on(self, frame: Frame) -> None:
        if self._call_soon is not None:
            self._call_soon(self._serve, frame)
        elif frame.kind == FrameKind.NOTICE:
            self._note(json.loads(bytes(frame.body)))
        elif frame.kind == FrameKind.CALL:
            name, arguments, _ = self._read(frame)
            self._answer(frame.number, lambda: self._metrics.call(name, arguments))

    def _serve(self, frame: Frame) -> None:
        if frame.kind == FrameKind.NOTICE:
            self._note(json.loads(bytes(frame.body)))
        elif frame.kind == FrameKind.SUBMIT:
            self._models.submit(frame, self.caller)
        elif frame.kind == FrameKind.CANCEL:
            self._models.cancel(frame.number)
        elif frame.kind == FrameKind.CALL:
            name, arguments, files = self._read(frame)
            control = {"load_model": self._load, "unload_model": self._unload, "is_model_ready": self._is_ready}
            if name in control:
                self._run(frame.number, control[name](arguments, files))
            else:
                self._answer(frame.number, lambda: self._metrics.call(name, arguments))

    def _read(self, frame: Frame) -> tuple[str, dict[str, Any], list[Tensor]]:
        record = self._stub.messages.request(frame, self._stub.segments.borrow)
        arguments = dict(record.rest)
        return str(arguments.pop("call")), arguments, record.inputs

    # --- answers ---

    def _run(self, number: int, call: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._await(number, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await(self, number: int, call: Coroutine[Any, Any, Any]) -> None:
        try:
            result = await call
        except InferenceError as error:
            self._reply(number, _refusal(error))
        except Exception as error:
            logger.exception("%s: a call of the model failed", self._stub.name)
            self._reply(number, _refusal(InternalError(str(error))))
        else:
            self._reply(number, {"result": result})

    def _answer(self, number: int, call: Callable[[], Any]) -> None:
        try:
            result = call()
        except InferenceError as error:
            self._reply(number, _refusal(error))
        else:
            self._reply(number, {"result": result})

    def _reply(self, number: int, document: Mapping[str, Any]) -> None:
        self._stub.send(encode_frame(FrameKind.REPLY, [json.dumps(document).encode()], number=number))

    # --- what can be asked ---

    def _note(self, notice: dict[str, Any]) -> None:
        kind = notice.pop("notice")
        if kind == "log":
            self._log(notice)
        else:
            self._metrics.note(kind, notice)

    def _log(self, notice: Mapping[str, Any]) -> None:
        level = _LEVELS.get(notice["level"], logging.INFO)
        if logger.isEnabledFor(level):
            record = logger.makeRecord(
                logger.name, level, notice["file"], notice["line"], notice["message"], (), None, "model"
            )
            record.process = os.getpid()
            logger.handle(record)

    async def _load(self, arguments: Mapping[str, Any], files: list[Tensor]) -> None:
        contents = {tensor.name: bytes(tensor.buffer) for tensor in files}
        await self._reachable().load_model(
            arguments["name"], config=arguments["config"] or None, files=contents or None
        )

    async def _unload(self, arguments: Mapping[str, Any], _: list[Tensor]) -> None:
        await self._reachable().unload_model(arguments["name"], unload_dependents=bool(arguments["unload_dependents"]))

    async def _is_ready(self, arguments: Mapping[str, Any], _: list[Tensor]) -> bool:
        return await self._reachable().is_model_ready(arguments["name"], _version(arguments["version"]))

    def _reachable(self) -> InferenceServer:
        if self._server is None:
            raise UnavailableError("the server cannot be reached from this model")
        return self._server


def _refusal(error: InferenceError) -> dict[str, str]:
    return {"error": error.message, "code": error.code.value}


def _version(text: str) -> int:
    if not text:
        return ANY_VERSION
    what = f"failed to get model version from specified version string '{text}'"
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise InvalidArgumentError(f"{what} (details: stol), version should be an integral value > 0")
    if digits != text:
        raise InvalidArgumentError(f"{what}, version should be an integral value > 0")
    return int(text)
