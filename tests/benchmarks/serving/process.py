"""One server process for the time of a measurement: its start, its first right answer, what it uses, its end."""

import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
import numpy as np
import psutil

from tests.benchmarks.serving.peer import Launch, Peer
from tests.benchmarks.serving.workload import HttpRequest, Row, Wire, grpc_message, http_request

_READY_SECONDS = 90.0
_ANSWER_SECONDS = 30.0
_STOP_SECONDS = 5.0
_METHOD = "/inference.GRPCInferenceService/ModelInfer"


class ServerError(Exception):
    """A server that does not start or answers wrongly, with the end of its log."""


class ServerProcess:
    """A context: starts the peer for a row, waits until it answers rightly, and ends every process of it."""

    def __init__(self, peer: Peer, row: Row, wire: Wire, home: Path) -> None:
        self.row = row
        self.wire = wire
        self._peer = peer
        self._home = home
        self._folder = Path(tempfile.mkdtemp(prefix="serving-"))
        self.http_port, self.grpc_port, self._metrics_port = _free_ports(3)
        self.start_seconds = 0.0

    def __enter__(self) -> Self:
        launch = Launch(self.row, self.http_port, self.grpc_port, self._metrics_port, self._folder / "work", self._home)
        launch.folder.mkdir()
        command = self._peer.command(launch)
        self._log = (self._folder / "log").open("wb")
        begun = time.perf_counter()
        self._process = subprocess.Popen(
            command.arguments, env={**os.environ, **command.environment}, stdout=self._log, stderr=subprocess.STDOUT,
            cwd=launch.folder, start_new_session=True,
        )  # fmt: skip
        try:
            self._wait_ready(begun + _READY_SECONDS)
        except BaseException:
            self._end()
            raise
        self.start_seconds = time.perf_counter() - begun
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def http_request(self) -> HttpRequest:
        return http_request(self.row.network, self.wire)

    @property
    def folder(self) -> Path:
        """Scratch space for the loader."""
        return self._folder

    def processes(self) -> list[psutil.Process]:
        """The server and everything it started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            own = psutil.Process(self._process.pid)
            return [own, *own.children(recursive=True)]
        return []

    def cpu_seconds(self) -> float:
        """Processor time of all of them so far."""
        total = 0.0
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def memory_bytes(self) -> tuple[int, int]:
        """Resident and proportional set size of all of them."""
        resident = proportional = 0
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                memory = process.memory_full_info()
                resident += memory.rss
                proportional += memory.pss
        return resident, proportional

    def settle(self, seconds: float = 20.0) -> None:
        """Wait until a server that is ready does nothing."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            before = self.cpu_seconds()
            time.sleep(0.5)
            if self.cpu_seconds() - before < 0.05:
                return

    def _wait_ready(self, deadline: float) -> None:
        ask = self._ask_grpc if self.row.loader in {"h2load", "perf_analyzer_grpc"} else self._ask_http
        failure: Exception | None = None
        while time.perf_counter() < deadline:
            if self._process.poll() is not None:
                raise ServerError(f"ended with status {self._process.returncode}: {self._log_end()}")
            try:
                answer = ask()
            except (OSError, http.client.HTTPException, grpc.RpcError) as error:
                failure = error
                time.sleep(0.02)
                continue
            self._check(answer)
            return
        raise ServerError(f"no answer within {_READY_SECONDS:.0f} s: {failure!r} {self._log_end()}")

    def _ask_http(self) -> list[float]:
        request = self.http_request
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=_ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request("POST", request.path, request.body, request.headers)
            response = connection.getresponse()
            body = response.read()
            if response.status != http.HTTPStatus.OK:
                raise http.client.HTTPException(f"{response.status} {body[:300]!r}")
            return request.read({name.lower(): value for name, value in response.getheaders()}, body)

    def _ask_grpc(self) -> list[float]:
        options = [("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}", options=options) as channel:
            answer: bytes = channel.unary_unary(_METHOD)(grpc_message(self.row.network), timeout=_ANSWER_SECONDS)
        count = int(np.prod(self.row.network.output_shape))
        values: list[float] = np.frombuffer(answer[-4 * count :], np.float32).tolist()
        return values

    def _check(self, answer: list[float]) -> None:
        network = self.row.network
        flat = np.asarray(answer, np.float32).ravel()
        if flat.size != np.prod(network.output_shape):
            raise ServerError(f"an answer of {flat.size} numbers")
        if not network.is_onnx and not np.array_equal(flat, np.asarray(network.values(), np.float32)):
            raise ServerError("an answer that is not the request's tensor")

    def _log_end(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    def _end(self) -> None:
        mine = self.processes()
        self._process.send_signal(signal.SIGTERM)
        _, alive = psutil.wait_procs(mine, timeout=_STOP_SECONDS)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
