"""
Whether many requests of random sizes leave memory where it was: `python tests/benchmarks/python_soak.py [requests]`.

Prints resident memory of the server's side and of the child, and the shared memory that both have mapped, ten times.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.batches import a_batch
from tests.support.python_models import ECHO, PythonModel, an_echo_config


def _report(done: int, model: PythonModel) -> None:
    stub = model.instance._stub
    own, child = (psutil.Process(pid).memory_info().rss >> 10 for pid in (None, stub.pid))
    mapped = Path("/proc/self/maps").read_text().count("/dev/shm/")
    print(
        f"{done:8} requests: server {own} KiB, child {child} KiB, {mapped} segments, {len(_names())} names in /dev/shm"
    )


def _names() -> list[Path]:
    return list(Path("/dev/shm").iterdir())


async def _main(requests: int) -> None:
    config = an_echo_config()
    random = np.random.default_rng(1)
    body = ECHO.replace(".as_numpy())", ".as_numpy() + 1)")
    with tempfile.TemporaryDirectory() as folder:
        async with PythonModel(Path(folder), body, config=config) as model:
            for done in range(1, requests + 1):
                await model.execute(a_batch(config, {"IN": np.zeros(int(2 ** random.uniform(0, 20)), np.float32)}))
                if done % max(requests // 10, 1) == 0:
                    _report(done, model)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
