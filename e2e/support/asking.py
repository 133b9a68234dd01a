"""
Asks a server with Triton's clients: from this machine as a module, from a pod as a program.

    asking.py once PROTOCOL ADDRESS MODEL VALUES     prints the answer as JSON
    asking.py load PROTOCOL ADDRESS MODEL VALUES     asks until its input ends, then prints what came of it as JSON

VALUES is a JSON list of numbers or texts.
"""

import importlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

_CLIENTS = 3
_PAUSE_SECONDS = 0.01


class Asker:
    """A client of one server. `protocol` is http or grpc."""

    def __init__(self, protocol: str, address: str) -> None:
        self._triton = importlib.import_module(f"tritonclient.{protocol}")
        self._client = self._triton.InferenceServerClient(address)

    def ask(
        self, model: str, values: Sequence[float] | Sequence[str], headers: Mapping[str, str] | None = None
    ) -> list:
        """Tensor OUTPUT for tensor INPUT, a batch of one row: text as BYTES, else FP32. Raises Triton's errors."""
        text = isinstance(values[0], str)
        array = np.array([values], np.object_ if text else np.float32)
        tensor = self._triton.InferInput("INPUT", [1, len(values)], "BYTES" if text else "FP32")
        tensor.set_data_from_numpy(array)
        answer = self._client.infer(model, [tensor], headers=dict(headers or {})).as_numpy("OUTPUT")
        return [each.decode() if isinstance(each, bytes) else each for each in answer[0].tolist()]

    def close(self) -> None:
        self._client.close()


def ask(protocol: str, address: str, model: str, values: Sequence, headers: Mapping[str, str] | None = None) -> list:
    """One question over a connection of its own."""
    asker = Asker(protocol, address)
    try:
        return asker.ask(model, values, headers)
    finally:
        asker.close()


class Load:
    """Clients that ask one after the other, as fast as the pause allows, until `stop`."""

    def __init__(self, protocol: str, address: str, model: str, values: Sequence[float]) -> None:
        self._stopping = threading.Event()
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []
        arguments = (protocol, address, model, values)
        self._threads = [threading.Thread(target=self._ask, args=arguments) for _ in range(_CLIENTS)]
        for thread in self._threads:
            thread.start()

    def wait_for_first_answer(self) -> None:
        """Return when a client has an answer or a failure: a test changes nothing before its load runs."""
        while not self.answers and not self.failures:
            time.sleep(_PAUSE_SECONDS)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, protocol: str, address: str, model: str, values: Sequence[float]) -> None:
        asker = Asker(protocol, address)
        while not self._stopping.is_set():
            try:
                self.answers[json.dumps(asker.ask(model, values))] += 1
            except Exception as error:  # noqa: BLE001 - every failure counts
                self.failures.append(f"{time.strftime('%X')} {type(error).__name__}: {error}")
            time.sleep(_PAUSE_SECONDS)
        asker.close()


def main() -> None:
    verb, protocol, address, model, text = sys.argv[1:]
    values = json.loads(text)
    if verb == "once":
        print(json.dumps(ask(protocol, address, model, values)))
        return
    load = Load(protocol, address, model, values)
    load.wait_for_first_answer()
    print("begun", flush=True)
    sys.stdin.read()
    load.stop()
    print(json.dumps({"answers": load.answers, "failures": load.failures}))


if __name__ == "__main__":
    main()
