"""Honest clients beside attackers: each in a loop, over both wires, with a note of every answer's time and every fault."""

import contextlib
import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import tritonclient.grpc

_PATH = "/v2/models/numbers/infer"
_BODY = json.dumps({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [3], "data": [1, 2, 3]}]}).encode()
_HEALTH = "/v2/health/ready"


@dataclass
class Record:
    """What honest clients saw."""

    seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """The time, in seconds, that so large a share of the answers stayed below."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else 0.0


class HonestClients:
    """Threads that ask the server until the block ends; `pace` is the pause between two requests of one client."""

    def __init__(self, http_port: int, grpc_port: int, *, each: int = 2, pace: float = 0.0) -> None:
        self.record = Record()
        self._ports = (http_port, grpc_port)
        self._pace = pace
        self._over = threading.Event()
        targets = [self._over_http, self._over_grpc] * each
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self.record.faults.append("a client still waits for its answer after 60 s")

    def _over_http(self) -> None:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._ports[0], timeout=60)) as connection:
            while not self._over.is_set():
                self._timed(lambda: _ask_http(connection), connection.close)

    def _over_grpc(self) -> None:
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self._ports[1]}") as client:
            while not self._over.is_set():
                self._timed(lambda: _ask_grpc(client), lambda: None)

    def _timed(self, ask: Callable[[], object], give_up: Callable[[], object]) -> None:
        begin = time.perf_counter()
        try:
            ask()
        except Exception as error:  # noqa: BLE001 - whatever it is, an honest client has lost a request
            self.record.faults.append(f"{type(error).__name__}: {error}")
            give_up()
            time.sleep(0.05)
        else:
            self.record.seconds.append(time.perf_counter() - begin)
        if self._pace:
            self._over.wait(self._pace)


def _ask_http(connection: http.client.HTTPConnection) -> None:
    connection.request("POST", _PATH, _BODY)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise ValueError(f"{response.status} {body[:200]!r}")
    if json.loads(body)["outputs"][0]["data"] != [1.0, 2.0, 3.0]:
        raise ValueError(f"wrong answer {body[:200]!r}")


def _ask_grpc(client: tritonclient.grpc.InferenceServerClient) -> None:
    tensor = tritonclient.grpc.InferInput("IN", [3], "FP32")
    tensor.set_data_from_numpy(np.array([1, 2, 3], np.float32))
    answer = client.infer("numbers", [tensor], client_timeout=60)
    if answer.as_numpy("OUT").tolist() != [1.0, 2.0, 3.0]:
        raise ValueError("wrong answer")


def is_ready(http_port: int) -> bool:
    """Ask for readiness over a new connection."""
    connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=10)
    try:
        connection.request("GET", _HEALTH)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
