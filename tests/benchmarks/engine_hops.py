"""
How long a request takes inside the engine: from `Model.submit` over scheduler, batch, instance and back to its reply.

    python tests/benchmarks/engine_hops.py [--scheduling direct] [--in-thread] [--profile] [--seconds 2]

Prints microseconds a request (elapsed time over requests, and the processors' time, which other processes on the
machine disturb less) with 1, 8, 32 and 128 in flight, each client sending its
next request when the last one is answered, for the identity model with FP32[16].
"""

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import uvloop

from charonia_runtime.backends.identity import Backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.config import InstanceGroup, InstanceKind, ModelConfig, TensorSpec
from charonia_runtime.core.datatypes import DataType
from charonia_runtime.core.request import InferenceRequest
from charonia_runtime.core.scheduling import Direct, DynamicBatching
from charonia_runtime.core.tensor import Tensor
from charonia_runtime.engine.execution.model import Model
from tests.support.replies import Reply

_IN_FLIGHT = (1, 8, 32, 128)


def a_config(rows: int = 16, scheduling: str = "dynamic") -> ModelConfig:
    return ModelConfig(
        "identity",
        backend="identity",
        max_batch_size=rows,
        inputs=(TensorSpec("INPUT0", DataType.FP32, (16,)),),
        outputs=(TensorSpec("OUTPUT0", DataType.FP32, (16,)),),
        scheduling=DynamicBatching() if scheduling == "dynamic" else Direct(),
        instance_groups=(InstanceGroup("identity", InstanceKind.CPU, 1),),
    )


class InThread(Backend):
    """The same, but executed in its own thread however brief it is."""

    traits = replace(Backend.traits, any_thread=False)


async def _client(model: Model, until: float) -> int:
    data = memoryview(bytes(64))
    answered = 0
    while time.perf_counter() < until:
        reply = Reply()
        model.submit(InferenceRequest("identity", {"INPUT0": Tensor("INPUT0", DataType.FP32, (1, 16), data)}, reply))
        await reply.response()
        answered += 1
    return answered


async def _measure(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = ModelFiles("identity", 1, Path(folder), Path(folder))
        model = await Model.load(
            files, a_config(scheduling=options.scheduling), InThread if options.in_thread else Backend
        )
        print("in flight  us/request  CPU us/request  requests/s  rows/batch")
        for in_flight in _IN_FLIGHT:
            executions = model.statistics.execution_count
            start, begin = time.perf_counter(), time.process_time()
            answered = sum(await asyncio.gather(*(_client(model, start + options.seconds) for _ in range(in_flight))))
            elapsed, computing = time.perf_counter() - start, time.process_time() - begin
            batches = model.statistics.execution_count - executions
            print(
                f"{in_flight:9} {elapsed / answered * 1e6:11.1f} {computing / answered * 1e6:15.1f} "
                f"{answered / elapsed:11.0f} {answered / batches:11.1f}"
            )
        await model.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheduling", choices=("dynamic", "direct"), default="dynamic")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each number in flight")
    parser.add_argument("--in-thread", action="store_true", help="never execute on the event loop's thread")
    parser.add_argument("--profile", action="store_true", help="print where the event loop's thread spends its time")
    options = parser.parse_args()
    sys.setswitchinterval(0.0005)
    profile = cProfile.Profile() if options.profile else None
    if profile is not None:
        profile.enable()
    uvloop.run(_measure(options))
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
