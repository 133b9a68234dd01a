"""The child process of one instance: started, asked while it loads, killed with all that it forked."""

import json
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

from charonia_runtime.backends.python.descendants import VARIABLE, kill_marked, new_mark
from charonia_runtime.backends.python.environment import Interpreter
from charonia_runtime.backends.python.settings import Settings
from charonia_runtime.core.errors import InternalError
from charonia_runtime.ipc.arena import Arena
from charonia_runtime.ipc.channel import BlockingChannel, ChannelClosedError, LoopChannel
from charonia_runtime.ipc.frames import CHILD_BODY_BYTES, Frame, FrameKind, encode_frame
from charonia_runtime.ipc.messages import MessageReader
from charonia_runtime.ipc.packing import LayoutCodec, Packer
from charonia_runtime.ipc.segments import (
    CANCELLED,
    CANCELLED_OFFSET,
    STARTED,
    STARTED_BYTES,
    SegmentTable,
    create_segment_file,
)

logger = logging.getLogger(__name__)

SCRIPT = Path(__file__).resolve().parents[2] / "stub" / "__main__.py"
_FIRST_SEGMENT = 1
_RETURNED = encode_frame(FrameKind.RETURNED)
_SEGMENT_KINDS = {FrameKind.SEGMENT, FrameKind.SEGMENT_GONE}
_MOST_SEGMENTS = 4096


class _Link:
    """
    The channel to a child, of whichever kind it is at the moment. Nothing of it leads back to the child's arena: the
    memory goes with the last reference, not with the next garbage collection.
    """

    __slots__ = ("channel",)

    def __init__(self, channel: BlockingChannel | LoopChannel) -> None:
        self.channel = channel

    def send(self, frame: bytes) -> bool:
        try:
            return self.channel.send(frame)
        except ChannelClosedError:
            return False

    def tell_returned(self) -> None:
        """Tell the child that a large block of its memory has gone back. May be called in any thread."""
        if isinstance(self.channel, LoopChannel):
            self.channel.send_soon(_RETURNED)

    def announce(self, number: int, descriptor: int, size: int) -> None:
        with suppress(ChannelClosedError):
            self.channel.send_segment(number, descriptor, size)

    def retract(self, number: int) -> None:
        self.send(encode_frame(FrameKind.SEGMENT_GONE, number=number))


class StubProcess:
    """
    A running child with its channel and its shared memory. Starting blocks; so does `ask`.

    The child holds the reading end of a pipe whose other end is only here: it is killed by the kernel when this
    process ends in any way.
    """

    def __init__(self, name: str, interpreter: Interpreter, settings: Settings) -> None:
        """Raises InternalError when there is no memory for it or it does not start in time."""
        self.name = name
        self.has_check = False
        """Whether the model has an `is_ready`; known when it is initialized."""
        self.started = time.monotonic()
        self.segments = SegmentTable()
        self.layouts = LayoutCodec()
        self.messages = MessageReader(self.layouts)
        self._mark = new_mark()
        key = f"{settings.prefix}{name}"
        segment = _first_segment(key, settings.default_bytes)
        with ExitStack() as kept:
            kept.callback(os.close, segment)
            try:
                self._start(interpreter, settings, key, segment, kept)
            except OSError as error:
                raise InternalError(f"Failed to start the stub process '{name}': {error}") from error
            kept.pop_all()
        self.segments.returned = self._link.tell_returned
        first = self._first = self.segments.add(_FIRST_SEGMENT, segment, settings.default_bytes)
        self.arena = Arena(
            key,
            self.segments,
            first=first,
            part=(STARTED_BYTES, settings.default_bytes // 2),
            numbers=count(2, 2),
            growth_bytes=settings.growth_bytes,
            announce=self._link.announce,
            retract=self._link.retract,
        )
        self._await_start(settings.timeout_seconds)

    def _start(self, interpreter: Interpreter, settings: Settings, key: str, segment: int, kept: ExitStack) -> None:
        """Raises OSError; what is this process's own is closed by `kept` then, what is the child's in any case."""
        with ExitStack() as theirs:
            ours, their_end = socket.socketpair()
            theirs.callback(their_end.close)
            kept.callback(ours.close)
            lifeline, self._lifeline = _pipe(theirs, kept)
            questions, self._questions = _pipe(theirs, kept)
            inherited = [their_end.fileno(), lifeline, questions, segment]
            sizes = [settings.default_bytes, settings.growth_bytes]
            self._process = subprocess.Popen(  # noqa: S603  # the interpreter is the operator's choice
                interpreter.command(SCRIPT, [*map(str, inherited + sizes), key]),
                env={**os.environ, **interpreter.variables, VARIABLE: self._mark},
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._link = _Link(BlockingChannel(ours, writable=False, most_bytes=CHILD_BODY_BYTES))

    @property
    def channel(self) -> BlockingChannel | LoopChannel:
        return self._link.channel

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def last_started(self) -> int:
        """The number of the batch that the child has begun last; still true when it is dead."""
        (number,) = STARTED.unpack_from(self._first.view)
        return int(number)

    def note_cancelled(self) -> None:
        """Let the child ask which requests are cancelled when its model wants to know the next time."""
        view = self._first.view
        (count,) = CANCELLED.unpack_from(view, CANCELLED_OFFSET)
        CANCELLED.pack_into(view, CANCELLED_OFFSET, (count + 1) & 0xFFFFFFFF)

    def packer(self) -> Packer:
        """An empty frame for the child."""
        return Packer(self.arena, self.layouts)

    def send(self, frame: bytes) -> bool:
        """Send a frame. False when the child is known to be gone: it will never see any of it."""
        return self._link.send(frame)

    def hold(self) -> None:
        """Let what is sent from now on wait for `release`."""
        if isinstance(self._link.channel, LoopChannel):
            self._link.channel.hold()

    def release(self) -> None:
        """Send what was held. If the child is gone, that is noticed elsewhere."""
        if isinstance(self._link.channel, LoopChannel):
            self._link.channel.release()

    def ask(
        self,
        kind: FrameKind,
        document: Mapping[str, Any],
        expected: FrameKind,
        serve: Callable[[Frame], None],
    ) -> dict[str, Any]:
        """
        Send a command and wait for its answer, however long it takes; `serve` gets all else that comes meanwhile.

        Raises InternalError with the text that the child answers, or when it dies or sends what makes no sense.
        """
        channel = self._link.channel
        if not isinstance(channel, BlockingChannel):
            raise InternalError(f"Stub process '{self.name}' is in use already.")
        self.send(encode_frame(kind, [json.dumps(document).encode()]))
        try:
            while (frame := channel.receive()).kind != expected:
                if not self.accept_segment(frame):
                    serve(frame)
            answer: dict[str, Any] = json.loads(bytes(frame.body))
            refusal = answer.get("error")
        except (ChannelClosedError, OSError):
            raise unhealthy(self.name) from None
        except Exception as error:
            logger.exception("%s: the stub process sent what makes no sense while the model was loaded", self.name)
            raise unhealthy(self.name) from error
        if refusal is not None:
            raise InternalError(str(refusal))
        return answer

    def ask_readiness(self) -> None:
        """Have the model's `is_ready` called, whatever else the child does; READINESS is the answer."""
        with suppress(OSError):  # it is dead, which is noticed elsewhere
            os.write(self._questions, b"?")

    def accept_segment(self, frame: Frame) -> bool:
        """
        Map or unmap what the child says of its segments. False when the frame says something else.

        Raises InternalError when the segment is not one of the child's, or it has too many.
        """
        if frame.kind not in _SEGMENT_KINDS:
            return False
        if frame.number % 2 == 0 or frame.number == _FIRST_SEGMENT or len(self.segments) > _MOST_SEGMENTS:
            raise InternalError(f"malformed frame: shared-memory segment {frame.number} is none of the child's")
        if frame.kind == FrameKind.SEGMENT:
            self.segments.add(*self._link.channel.take_segment(frame))
        else:
            self.segments.remove(frame.number)
        return True

    def attach(self, channel: LoopChannel) -> None:
        """From now on the channel belongs to the event loop."""
        self._link.channel = channel

    def open_death_notice(self) -> int | None:
        """A descriptor that becomes readable when the child dies; None where the kernel has none."""
        try:
            return os.pidfd_open(self._process.pid)
        except OSError:
            return None

    def close_death_notice(self, descriptor: int) -> None:
        """Close what `open_death_notice` gave."""
        os.close(descriptor)

    def kill(self) -> str:
        """
        End the child and its process group; free everything. Says how the child ended. May be called again.

        What has left the group is left to `sweep`, which may take longer.
        """
        if self._process.returncode is None:
            # Not reaped yet, so its process group can be nobody else's.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._link.channel.close()
            os.close(self._lifeline)
            os.close(self._questions)
        code = self._process.returncode
        return f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    def sweep(self) -> None:
        """Kill what the child has started and what has left its process group, after `kill`. Blocks."""
        killed = kill_marked(self._mark)
        if killed:
            logger.warning("%s: killed %d process(es) that the model had left running", self.name, killed)

    def end(self) -> None:
        """`kill` and `sweep`. Blocks."""
        self.kill()
        self.sweep()

    def _await_start(self, timeout_seconds: float) -> None:
        channel = self._link.channel
        if not isinstance(channel, BlockingChannel):
            return
        channel.socket.settimeout(timeout_seconds)
        try:
            channel.receive()  # STARTED
        except TimeoutError:
            self.end()
            raise InternalError(
                "Timed out occurred while waiting for the stub process. Failed to initialize model instance "
                f"{self.name}"
            ) from None
        except (ChannelClosedError, OSError, InternalError):
            self.end()
            raise unhealthy(self.name) from None
        channel.socket.settimeout(None)


def _pipe(theirs: ExitStack, kept: ExitStack) -> tuple[int, int]:
    """A pipe: the reading end is the child's, the writing end is kept."""
    reading, writing = os.pipe()
    theirs.callback(os.close, reading)
    kept.callback(os.close, writing)
    return reading, writing


def unhealthy(name: str) -> InternalError:
    """What the requests of a child that died are answered with."""
    return InternalError(f"Stub process '{name}' is not healthy.")


def _first_segment(key: str, size: int) -> int:
    try:
        return create_segment_file(size)
    except OSError as error:
        raise InternalError(
            f"Unable to initialize shared memory key '{key}' to requested size ({size} bytes). If you are running "
            "Triton inside docker, use '--shm-size' flag to control the shared memory region size. Each Python backend "
            f"model instance requires at least 1 MB of shared memory. Error: {error.strerror}"
        ) from error
