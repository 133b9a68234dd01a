"""Faults of one Python model while 32 clients load two other models of the same server: nobody else notices."""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.processes import ServerProcess
from tests.support.python_models import HEAD

pytestmark = pytest.mark.slow

UNHEALTHY = r"Stub process 'faulty_0' is not healthy\."
CONFIG = """
backend: "python"
max_batch_size: {batch}
input [{{ name: "IN" data_type: {datatype} dims: [ 1 ] }}]
output [{{ name: "OUT" data_type: {datatype} dims: [ 1 ] }}]
"""
ECHO = """
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""
OBEDIENT = """
    def execute(self, requests):
        statement = requests[0].inputs()[0].as_numpy()[0].decode()
        answer = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([b"done"], dtype=object))])
        scope = {**globals(), "answers": [answer], "answer": answer, "requests": requests}
        exec(statement, scope)
        return scope["answers"]

    def finalize(self):
        raise ValueError("finalize is broken, too")
"""
SENT_TWICE = "sender = requests[0].get_response_sender(); sender.send(answer, 1); sender.send(answer, 1)"
MORE_THAN_THERE_IS = """
import mmap
room = os.statvfs("/dev/shm")
unreserved = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
pages = mmap.mmap(-1, 2 * room.f_blocks * room.f_bsize, flags=unreserved)
answers = [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.frombuffer(pages, np.uint8))])]
"""
NO_MEMORY = """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, hard))
try:
    np.ones(1 << 30)
finally:
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
"""
OUTPUT = "answers = [pb_utils.InferenceResponse([pb_utils.Tensor({}, {})])]"


def write_model(repository: Path, name: str, body: str, datatype: str = "TYPE_FP32", batch: int = 0) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.py").write_text(HEAD + body)
    (repository / name / "config.pbtxt").write_text(CONFIG.format(datatype=datatype, batch=batch))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_model(folder, "faulty", OBEDIENT, "TYPE_STRING")
    write_model(folder, "echo", ECHO)
    write_model(folder, "batching", ECHO, batch=8)
    return folder


@pytest.fixture(scope="module")
def server(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    names = shared_memory()
    with ServerProcess(repository, tmp_path_factory.mktemp("log") / "log") as running:
        yield running
        children = psutil.Process(running.process.pid).children(recursive=True)
    assert all_gone(children)
    assert shared_memory() <= names


def shared_memory() -> set[str]:
    return {entry.name for entry in Path("/dev/shm").iterdir()}


def all_gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=10)[1]


# --- clients ---


async def ask(server: ServerProcess, model: str, inputs: list[object], seconds: float = 20) -> tuple[int, str]:
    """Status and body of the answer to one inference over HTTP, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
    try:
        async with asyncio.timeout(seconds):
            return await exchange(reader, writer, model, inputs)
    finally:
        writer.close()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, model: str, inputs: list[object]
) -> tuple[int, str]:
    body = json.dumps({"inputs": inputs}).encode()
    writer.write(
        b"POST /v2/models/%b/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (model.encode(), len(body))
    )
    writer.write(body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = int(next(line for line in head.lower().split("\r\n") if line.startswith("content-length:")).split(":")[1])
    return int(head.split(" ")[1]), (await reader.readexactly(length)).decode()


async def obey(server: ServerProcess, statement: str, seconds: float = 20) -> tuple[int, str]:
    """Have the faulty model run a statement."""
    return await ask(
        server, "faulty", [{"name": "IN", "datatype": "BYTES", "shape": [1], "data": [statement]}], seconds
    )


class Load:
    """Clients of the two other models, each with one request after the other; what went wrong for them."""

    def __init__(self) -> None:
        self.answered = 0
        self.mistakes: list[str] = []
        self.ended = False

    async def client(self, server: ServerProcess, number: int) -> None:
        model, shape = (("echo", [1]), ("batching", [1, 1]))[number % 2]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        while not self.ended:
            inputs = [{"name": "IN", "datatype": "FP32", "shape": shape, "data": [number]}]
            status, body = await exchange(reader, writer, model, inputs)
            self.answered += 1
            if status != 200 or json.loads(body)["outputs"][0]["data"] != [number]:
                self.mistakes.append(f"{status} {body}")
        writer.close()


@asynccontextmanager
async def load(server: ServerProcess) -> AsyncIterator[Load]:
    """32 clients at work within the context; at its end each of them must have been answered, and rightly."""
    running = Load()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for number in range(32):
            tasks.create_task(running.client(server, number))
        await reaches(running, 64)
        yield running
        await reaches(running, running.answered + 64)
        running.ended = True
    assert running.mistakes == []


async def reaches(load: Load, count: int) -> None:
    while load.answered < count:  # noqa: ASYNC110  # the clients set no events
        await asyncio.sleep(0.005)


# --- faults ---


@pytest.mark.parametrize(
    ("statement", "status", "answer"),
    [
        ("raise ValueError('broken')", 500, "broken"),
        ("raise pb_utils.TritonModelException('broken')", 500, "broken"),
        ("sys.exit(3)", 500, "3"),
        ("raise KeyboardInterrupt", 500, "KeyboardInterrupt"),
        ("__import__('ctypes').string_at(1)", 500, UNHEALTHY),
        ("os._exit(3)", 500, UNHEALTHY),
        ("os.abort()", 500, UNHEALTHY),
        ("os.kill(os.getpid(), signal.SIGKILL)", 500, UNHEALTHY),
        (NO_MEMORY, 500, "Unable to allocate"),
        (MORE_THAN_THERE_IS, 500, r"Failed to increase the shared memory pool size .* to \d+ bytes"),
        ("answers = None", 500, "."),
        ("answers = []", 500, r"InferenceRequest\(s\) size is:1, and InferenceResponse\(s\) size is:0"),
        ("answers = [None]", 500, "."),
        ("answers = answer", 500, "Expected a list in the execute return"),
        ("answers = [answer, answer]", 500, r"InferenceResponse\(s\) size is:2"),
        (SENT_TWICE, 200, "done"),
        (OUTPUT.format("'OTHER'", "np.zeros(1)"), 200, r'"outputs":\[\]'),
        ("raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})", 500, "Mute: <MESSAGE UNAVAILABLE DUE TO"),
        (OUTPUT.format("'OUT'", "np.zeros(1)"), 200, "FP64"),
        (OUTPUT.format("'OUT'", "np.zeros((2, 3), np.int8)"), 200, r"\[2,3\]"),
        (OUTPUT.format("'OUT'", "np.zeros(1, np.complex64)"), 500, "NumPy dtype is not supported"),
        ("os.fork()", 200, "done"),
        ("os.fork() or os._exit(0)", 200, "done"),
        ("os.fork() or time.sleep(600)", 200, "done"),
        ("print('x' * 100_000); os.write(1, bytes(range(256)) * 100); os.write(2, b'\\xff\\n')", 200, "done"),
        ("os.close(1); os.close(2); print('nobody hears')", None, "."),
        ("threading.Thread(target=lambda: 1 / 0).start()", 200, "done"),
        ("__import__('faulthandler')._stack_overflow()", 500, UNHEALTHY),
    ],
)
async def test_a_fault_concerns_its_request_only(
    server: ServerProcess, statement: str, status: int | None, answer: str
) -> None:
    async with load(server):
        found = await obey(server, statement)
        assert status is None or found[0] == status, found
        assert_contains(answer, found[1])
        assert (await obey(server, "pass"))[0] == 200


def assert_contains(pattern: str, text: str) -> None:
    assert re.search(pattern, text, re.DOTALL), text


async def test_requests_that_wait_behind_a_death_are_served_by_the_next_child(server: ServerProcess) -> None:
    async with load(server):
        dying, *others = await asyncio.gather(
            obey(server, "time.sleep(0.2); os._exit(1)"), *[obey(server, "pass") for _ in range(20)]
        )
    found = [dying, *others]
    assert sum(status != 200 for status, _ in found) == 1
    assert_contains(UNHEALTHY, next(body for status, body in found if status != 200))


async def test_repeated_deaths_disturb_nobody(server: ServerProcess) -> None:
    async with load(server):
        for _ in range(3):
            assert (await obey(server, "os._exit(1)"))[0] == 500
        assert (await obey(server, "pass"))[0] == 200


async def test_a_child_that_is_killed_from_outside(server: ServerProcess) -> None:
    async with load(server):
        pid = json.loads((await obey(server, "raise ValueError(f'pid {os.getpid()} ')"))[1])["error"]
        os.kill(int(pid.split("pid ")[1].split()[0]), signal.SIGKILL)
        assert (await obey(server, "pass"))[0] == 200


async def test_an_endless_loop_disturbs_nobody_and_does_not_outlive_the_server(
    repository: Path, tmp_path: Path
) -> None:
    names = shared_memory()
    with ServerProcess(repository, tmp_path / "log", "--exit-timeout-secs=1") as server:
        children = psutil.Process(server.process.pid).children(recursive=True)
        async with load(server):
            with pytest.raises(TimeoutError):
                await obey(server, "while True: pass", seconds=0.5)
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.process.wait, 20)
        assert time.monotonic() - begin < 15
        assert all_gone(children)
    assert shared_memory() <= names


async def test_nothing_is_left_of_a_server_that_is_killed(repository: Path, tmp_path: Path) -> None:
    names = shared_memory()
    with ServerProcess(repository, tmp_path / "log") as server:
        await obey(server, "os.fork() or time.sleep(600)")
        children = psutil.Process(server.process.pid).children(recursive=True)
        assert len(children) == 4
        server.process.kill()
        server.process.wait()
        assert all_gone(children)
    assert shared_memory() <= names
