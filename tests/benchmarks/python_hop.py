"""
What one hop to a Python model and back costs: `python tests/benchmarks/python_hop.py`. Prints, asserts nothing.

Wall time for each request, and the CPU time of the server's side and of the child's, with 1 and 8 instances' worth of
requests in a batch, for a small and for a large tensor.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.batches import a_batch
from tests.support.python_models import ECHO, PythonModel, an_echo_config

_COPYING = ECHO.replace(".as_numpy())", ".as_numpy() + 0)")
_TICKS = os.sysconf("SC_CLK_TCK")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def _measure(label: str, body: str, elements: int, requests: int, seconds: float = 2.0) -> None:
    config = an_echo_config(max_batch_size=0)
    array = np.zeros(elements, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        async with PythonModel(Path(folder), body, config=config) as model:
            prepared = a_batch(config, *[{"IN": array}] * requests).requests
            await _run(model, config, prepared, 200)
            child = model.instance._stub.pid
            cpu, child_cpu, wall = time.process_time(), _cpu_seconds(child), time.perf_counter()
            count = 0
            while time.perf_counter() - wall < seconds:
                await _run(model, config, prepared, 100)
                count += 100 * requests
            wall = time.perf_counter() - wall
            cpu, child_cpu = time.process_time() - cpu, _cpu_seconds(child) - child_cpu
    figures = " ".join(f"{1e6 * value / count:8.1f}" for value in (wall, cpu, child_cpu))
    print(f"{label:28} {4 * elements:8} bytes x{requests}: {figures}   µs wall, server CPU, child CPU")


async def _run(model: PythonModel, config: object, prepared: object, count: int) -> None:
    from tests.support.batches import RecordedBatch

    instance = model.instance
    loop = asyncio.get_running_loop()
    for _ in range(count):
        free = loop.create_future()
        instance.begin(RecordedBatch(config, prepared), lambda free=free: free.set_result(None))  # type: ignore[arg-type,misc]
        await free


async def _main() -> None:
    for label, body in (("output is the input", ECHO), ("output is new", _COPYING)):
        for elements in (16, 1000, 4096, 150_000):
            for requests in (1, 8):
                await _measure(label, body, elements, requests)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_main())
