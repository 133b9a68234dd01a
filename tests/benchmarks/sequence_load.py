"""
A thousand sequences at once over HTTP, some of which stall or hang up: is any answer lost, or any state mixed?

    python tests/benchmarks/sequence_load.py [--clients 1000] [--steps 20] [--seconds 30] [--strategy oldest]

Serves an ONNX model whose implicit state is the running sum of a sequence. Every client sends random numbers and knows
what each answer must be. A twentieth of the sequences is silent for longer than the server allows, and a twentieth hangs
up in the middle of a request. Prints what happened; exits with 1 if anything was lost or mixed.
"""

import argparse
import asyncio
import json
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from onnx import TensorProto, helper, save

_IDLE_SECONDS = 2.0
_STALLS = 0.05
_HANG_UPS = 0.05
_MISSING_START = "must specify the START flag"

_CONFIG = """
backend: "onnxruntime"
max_batch_size: 64
input {{ name: "IN" data_type: TYPE_INT64 dims: [ 1 ] }}
output {{ name: "OUT" data_type: TYPE_INT64 dims: [ 1 ] }}
instance_group {{ kind: KIND_CPU count: 2 }}
sequence_batching {{
  {strategy}
  max_sequence_idle_microseconds: {idle_us}
  state {{ input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT64 dims: [ 1 ] }}
}}
"""
_STRATEGIES = {"oldest": "oldest { max_candidate_sequences: 400 }", "direct": "direct { }"}


class Client:
    """One sequence after the other on a connection of its own."""

    def __init__(self, port: int, number: int, steps: int, counts: Counter[str]) -> None:
        self._port = port
        self._number = number
        self._steps = steps
        self._counts = counts
        self._random = random.Random(number)
        self._lives = 0

    async def run(self, until: float) -> None:
        while time.monotonic() < until:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                while time.monotonic() < until and await self._live(reader, writer):
                    pass
            finally:
                writer.close()

    async def _live(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One sequence; False when the connection is gone."""
        self._lives += 1
        self._counts["sequences"] += 1
        correlation_id = self._number * 1_000_000 + self._lives
        fate = self._random.random()
        stop = self._random.randrange(1, self._steps) if fate < _STALLS + _HANG_UPS else self._steps
        total = 0
        for step in range(self._steps):
            value = self._random.randrange(1000)
            if step == stop and fate < _STALLS:
                await asyncio.sleep(_IDLE_SECONDS * 2)
            writer.write(_request(correlation_id, value, start=step == 0, end=step == self._steps - 1))
            if step == stop and fate >= _STALLS:
                self._counts["hang-ups"] += 1
                return False
            total += value
            answer = await _answer(reader)
            if step == stop:
                right = _MISSING_START in answer.get("error", "")
                self._counts["stalls" if right else "stalls that went on"] += 1
                return True
            if "error" in answer:
                self._counts[f"lost: {answer['error']}"] += 1
                return True
            found = answer["outputs"][0]["data"][0]
            self._counts["answers" if found == total else "mixed"] += 1
        return True


def _request(correlation_id: int, value: int, *, start: bool, end: bool) -> bytes:
    body = json.dumps(
        {
            "parameters": {"sequence_id": correlation_id, "sequence_start": start, "sequence_end": end},
            "inputs": [{"name": "IN", "datatype": "INT64", "shape": [1, 1], "data": [value]}],
        }
    ).encode()
    return b"POST /v2/models/sum/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def _answer(reader: asyncio.StreamReader) -> dict[str, object]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    answer: dict[str, object] = json.loads(await reader.readexactly(length))
    return answer


def _write_model(repository: Path, strategy: str) -> None:
    tensors = {name: helper.make_tensor_value_info(name, TensorProto.INT64, ["n", 1])
               for name in ("IN", "SUM_IN", "SUM_OUT", "OUT")}  # fmt: skip
    nodes = [helper.make_node("Add", ["IN", "SUM_IN"], ["SUM_OUT"]), helper.make_node("Identity", ["SUM_OUT"], ["OUT"])]
    graph = helper.make_graph(
        nodes, "sum", [tensors["IN"], tensors["SUM_IN"]], [tensors["OUT"], tensors["SUM_OUT"]]
    )  # fmt: skip
    version = repository / "sum" / "1"
    version.mkdir(parents=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), version / "model.onnx")
    config = _CONFIG.format(strategy=_STRATEGIES[strategy], idle_us=int(_IDLE_SECONDS * 1e6))
    (repository / "sum" / "config.pbtxt").write_text(config)


async def _wait_until_ready(port: int) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
            continue
        writer.write(b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
        ready = b" 200 " in await reader.readline()
        writer.close()
        if ready:
            return


async def _measure(options: argparse.Namespace) -> Counter[str]:
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        _write_model(Path(folder), options.strategy)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "charonia_runtime", "serve", f"--model-repository={folder}", f"--http-port={port}",
            "--allow-grpc=false", "--allow-metrics=false", "--log-warning=false",
        )  # fmt: skip
        try:
            await _wait_until_ready(port)
            until = time.monotonic() + options.seconds
            clients = [Client(port, number, options.steps, counts) for number in range(1, options.clients + 1)]
            await asyncio.gather(*(client.run(until) for client in clients))
        finally:
            server.terminate()
            await server.wait()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--strategy", choices=tuple(_STRATEGIES), default="oldest")
    options = parser.parse_args()
    counts = asyncio.run(_measure(options))
    for what, count in sorted(counts.items()):
        print(f"{count:10} {what}")
    print(f"{counts['answers'] / options.seconds:10.0f} right answers a second")
    sys.exit(any(what.startswith(("lost", "mixed")) for what in counts))


if __name__ == "__main__":
    main()
