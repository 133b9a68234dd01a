"""`FrontendProcess`: one child that runs frontends: started, told to stop, killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from charonia_runtime.core.errors import InferenceError, InternalError, UnavailableError
from charonia_runtime.core.server import MirroredServer
from charonia_runtime.remote.link import Ends
from charonia_runtime.remote.peer import Peer, Peers

_ROOT: Final = Path(__file__).resolve().parents[2]
"""Where the package is imported from."""
_START_SECONDS: Final = 120.0
_GRACE_SECONDS: Final = 2.0
"""How much later than it was told to a process may end."""
_EXIT_SECONDS: Final = 1.0
"""How long a process that has left its channel may take to be gone."""


class FrontendProcess:
    """
    A child and the peer that serves it. It ends when this process does, in whatever way: it holds a lifeline.

    Used on the event loop. What the two say to each other: `started` or `failed` with a text from the child, `retire`
    and `stop` with its seconds to it.
    """

    def __init__(self, server: MirroredServer, peers: Peers, arguments: Sequence[str]) -> None:
        self._server = server
        self._peers = peers
        self._arguments = arguments
        self._lifeline = -1
        """The end of a pipe that only this process holds; the child is killed by the kernel when it is closed."""
        self._process: subprocess.Popen[bytes] | None = None
        self._peer: Peer | None = None
        self._ended = asyncio.Event()
        self._outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        """0 before it runs."""
        return 0 if self._process is None else self._process.pid

    async def start(self) -> None:
        """Returns when its frontends serve. Raises InferenceError with its text when they cannot."""
        try:
            ends = Ends.make()
        except OSError as error:
            raise UnavailableError(f"no shared memory for a process of frontends: {error.strerror}") from error
        try:
            self._process = await asyncio.to_thread(self._spawn, ends.theirs.fileno(), ends.segment)
        except OSError as error:
            ends.ours.close()
            os.close(ends.segment)
            self._cut_lifeline()
            raise UnavailableError(f"cannot start a process of frontends: {error}") from error
        finally:
            ends.theirs.close()
        self._peer = Peer(self._server, ends.ours, ends.segment, self._peers, noticed=self._noticed, closed=self._lost)
        await self._peer.start()
        try:
            await asyncio.wait_for(self._outcome, _START_SECONDS)
        except TimeoutError:
            raise UnavailableError(f"a process of frontends did not start within {_START_SECONDS:.0f} s") from None

    def retire(self) -> None:
        """Have its clients connect elsewhere."""
        if self._peer is not None:
            self._peer.notice({"retire": True})

    def hang_up(self) -> None:
        """Pass SIGHUP on, once it serves: before, it would not know what to do with it."""
        if self._process is not None and self._outcome.done() and not self._ended.is_set():
            self._process.send_signal(signal.SIGHUP)

    async def stop(self, timeout_seconds: float) -> None:
        """Let it finish what is in flight within the time; then it is killed."""
        if self._peer is None:
            return
        self._peer.notice({"stop": timeout_seconds})
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), timeout_seconds + _GRACE_SECONDS)
        await self.kill()

    async def ended(self) -> str:
        """Wait for its end, and say how that came."""
        await self._ended.wait()
        await self.kill()
        code = 0 if self._process is None else self._process.wait()
        return f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    async def kill(self) -> None:
        """End it at once; nothing of it is left. May be called again."""
        if self._peer is not None:
            self._peer.close()
        process = self._process
        if process is not None and process.returncode is None:
            if self._ended.is_set():
                with suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(process.wait, _EXIT_SECONDS)
            process.kill()
            await asyncio.to_thread(process.wait)
        self._cut_lifeline()
        self._lost()

    def _spawn(self, channel: int, segment: int) -> subprocess.Popen[bytes]:
        path = os.environ.get("PYTHONPATH")
        lifeline, self._lifeline = os.pipe()
        inherited = [channel, segment, lifeline]
        names = ",".join(map(str, inherited))
        try:
            return subprocess.Popen(  # noqa: S603  # this program, with arguments that it was given
                [sys.executable, "-P", "-m", "charonia_runtime", "frontend", names, *self._arguments],
                env={**os.environ, "PYTHONPATH": f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT)},
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(lifeline)

    def _cut_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _noticed(self, notice: Mapping[str, Any]) -> None:
        if "answers" in notice:
            for protocol, status, count in notice["answers"]:
                self._server.answers.of(protocol)[status] += count
            return
        if self._outcome.done():
            return
        if "failed" in notice:
            self._outcome.set_exception(UnavailableError(notice["failed"]))
        else:
            self._outcome.set_result(None)

    def _lost(self) -> None:
        self._ended.set()
        if not self._outcome.done():
            self._outcome.set_exception(_died())
            self._outcome.exception()  # whoever waits for it is told; nobody has to


def _died() -> InferenceError:
    return InternalError("a process of frontends died while it started")
