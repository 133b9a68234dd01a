"""
What each hop of a request costs on its own: from the JSON text of a body to that of its answer, without sockets.

    python -m tests.benchmarks.request_hops [--rows 8]

Prints microseconds of the processor a request (the least of several rounds, so that a busy machine disturbs little) for
the identity model with FP32[16], in batches of so many requests.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from charonia_runtime.backends.identity import Backend
from charonia_runtime.core.backend import ModelFiles
from charonia_runtime.core.request import ANY_VERSION, InferenceRequest, InferenceResponse
from charonia_runtime.engine.execution.model import Model
from charonia_runtime.protocols.v2_json import OutputForm, RequestDecoder, encode_response
from tests.benchmarks.engine_hops import a_config

_BODY = b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,16],"data":[%b]}]}' % b",".join([b"1.5"] * 16)
_REQUESTS = 8000
_ROUNDS = 15


class _Sink:
    """Forgets what it is sent."""

    def send(self, response: InferenceResponse) -> None:
        pass


def _cost(work: Callable[[], object], begin: Callable[[], object] = lambda: None) -> float:
    """Microseconds a request that `work` takes, which begins where `begin` left things."""
    least = float("inf")
    for _ in range(_ROUNDS):
        begin()
        start = time.thread_time()
        work()
        least = min(least, time.thread_time() - start)
    return least / _REQUESTS * 1e6


def _decode() -> list[InferenceRequest]:
    decoder, sink, body = RequestDecoder(1 << 20), _Sink(), memoryview(b"")
    return [decoder.decode(_BODY, body, "identity", ANY_VERSION, sink)[0] for _ in range(_REQUESTS)]


def _hops(model: Model, rows: int) -> dict[str, float]:
    flow = model._flow
    scheduler, statistics, runner, requests = flow._scheduler, flow.statistics, model._runners[0], _decode()

    def enqueue() -> None:
        for request in requests:
            scheduler.enqueue(request)

    def take() -> None:
        while scheduler.next_batch(0, runner.slot):
            pass

    def drained() -> None:
        scheduler.drain()

    def waiting() -> None:
        drained()
        enqueue()

    def execute() -> None:
        for batch in batches:
            runner.execute(batch)

    batches: Sequence[list[InferenceRequest]] = [requests[at : at + rows] for at in range(0, _REQUESTS, rows)]
    costs = {
        "1 decode the body": _cost(_decode),
        "2 check the request": _cost(lambda: [flow._admission.check(request) for request in requests]),
        "3 put it into the queue": _cost(enqueue, drained),
        "3 take a batch out": _cost(take, waiting),
        "4 execute": _cost(execute),
    }
    executed = [runner.execute(batch) for batch in batches]
    response = executed[0][1][0][1]

    def deliver() -> None:
        flow.in_flight += _REQUESTS
        for batch, answers in executed:
            flow.answered(batch, answers)

    costs["5 count the execution"] = _cost(lambda: [flow._count_execution(batch) for batch, _ in executed])
    costs["5 deliver the answer"] = _cost(deliver)
    costs["6 encode the answer"] = _cost(lambda: [encode_response(response, OutputForm()) for _ in range(_REQUESTS)])
    assert statistics.success.count
    return costs


async def _measure(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = await Model.load(ModelFiles("identity", 1, Path(folder), Path(folder)), a_config(rows), Backend)
        for hop, cost in _hops(model, rows).items():
            print(f"{cost:6.2f} us  {hop}")
        await model.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1, help="requests in a batch")
    asyncio.run(_measure(parser.parse_args().rows))


if __name__ == "__main__":
    main()
