"""
`charonia frontend`: a process that serves HTTP and gRPC for a `charonia serve` that started it. Nobody else calls it.

It ends when it is told to, or at once when that server is gone; signals of the terminal are the server's business.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import uvloop

from charonia_runtime import interpreter
from charonia_runtime.access_files import AccessFiles
from charonia_runtime.core.errors import InferenceError
from charonia_runtime.core.frontend import Frontend
from charonia_runtime.core.server import LogSettings
from charonia_runtime.frontends import load_frontend, start_frontend
from charonia_runtime.ipc import lifeline
from charonia_runtime.logs import Log
from charonia_runtime.options import ServeOptions, parse_serve
from charonia_runtime.remote.server import RemoteServer
from charonia_runtime.wires.certificates import refresh_certificates

_TELL_SECONDS = 1.0
"""How often the server hears what was answered here, for its metrics."""


def front(arguments: Sequence[str]) -> int:
    """
    Serve until the server says otherwise. Returns the process's exit code.

    The first argument names three descriptors: channel, shared memory, lifeline. The others are those of the server.
    """
    descriptors, *rest = arguments
    channel, segment, lifeline_pipe = map(int, descriptors.split(","))
    lifeline.hold(lifeline_pipe)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    options = parse_serve(rest, os.environ)
    log = Log(options.log, escape=options.environment.quote_log_messages)
    log.install()
    interpreter.set_up()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_Front(options, log).run(socket.socket(fileno=channel), segment))
    finally:
        log.close()


class _Front:
    """One life of the process."""

    _frontends: list[Frontend]

    def __init__(self, options: ServeOptions, log: Log) -> None:
        self._options = options
        self._log = log
        self._frontends = []
        self._access_files = AccessFiles(options.access)
        self._stop = asyncio.Event()
        self._stop_seconds = 0.0

    async def run(self, channel: socket.socket, segment: int) -> int:
        server = RemoteServer(channel, segment, noticed=self._noticed, log_changed=self._follow_log, lost=_leave)
        await server.start()
        try:
            self._access_files.open()
            await self._start_frontends(server)
        except InferenceError as error:
            server.notice({"failed": error.message})
            await self._stop.wait()
            return 1
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
        interpreter.settle()
        server.notice({"started": True})
        watching = asyncio.create_task(self._access_files.watch())
        telling = asyncio.create_task(_tell_answers(server))
        await self._stop.wait()
        watching.cancel()
        telling.cancel()
        await self._stop_frontends()
        server.tell_answers()
        return 0

    def _hang_up(self) -> None:
        """SIGHUP, as `serving` has it."""
        self._log.reopen()
        refresh_certificates()

    async def _start_frontends(self, server: RemoteServer) -> None:
        for name, options in self._options.frontends.items():
            if options.enabled and name != "metrics":
                frontend = load_frontend(name).Frontend(options, server)
                await start_frontend(frontend)
                self._frontends.append(frontend)

    async def _stop_frontends(self) -> None:
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._stop_seconds
        for frontend in reversed(self._frontends):
            await frontend.stop(max(deadline - clock(), 0))

    def _noticed(self, notice: Mapping[str, Any]) -> None:
        if "stop" in notice:
            self._stop_seconds = notice["stop"]
            self._stop.set()
        elif "retire" in notice:
            for frontend in self._frontends:
                frontend.retire()

    def _follow_log(self, settings: LogSettings) -> None:
        self._log.switches = replace(
            self._log.switches,
            info=bool(settings["log_info"]),
            warning=bool(settings["log_warning"]),
            error=bool(settings["log_error"]),
            verbose_level=int(settings["log_verbose_level"]),
            line_format=str(settings["log_format"]),
        )


async def _tell_answers(server: RemoteServer) -> None:
    while True:
        await asyncio.sleep(_TELL_SECONDS)
        server.tell_answers()


def _leave() -> None:
    """The server is gone, and with it all that could be answered."""
    os._exit(1)
