"""Each fault of a model: the right error to the requests concerned, a new child, nothing left behind."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.support.batches import a_batch
from tests.support.python_models import ECHO, PythonModel, an_echo_config, until

UNHEALTHY = "Stub process 'echo_0' is not healthy."
FAULTY = """
    def execute(self, requests):
        answers = []
        for request in requests:
            array = request.inputs()[0].as_numpy()
            if array[0] < 0:
                FAULT
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]))
        return answers
"""


def faulty(statement: str) -> str:
    """A model that echoes, and runs `statement` when its input is negative."""
    return FAULTY.replace("FAULT", statement)


def child_pid(model: PythonModel) -> int:
    return int(model.instance._stub.pid)


async def gone(*pids: int) -> None:
    """Returns when none of the processes runs any more."""
    await until(lambda: not any(_runs(pid) for pid in pids))


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def names_in_shared_memory() -> set[str]:
    return {entry.name for entry in Path("/dev/shm").iterdir()}


def die(pid: int) -> None:
    """Kill a child; it is dead, though not reaped, on return."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize(
    "statement",
    [
        "os._exit(0)",
        "os._exit(3)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.abort()",
        "__import__('ctypes').string_at(1)",
        "__import__('faulthandler')._sigsegv()",
    ],
)
@pytest.mark.filterwarnings("default")
async def test_a_child_that_dies_fails_its_requests_and_is_replaced(tmp_path: Path, statement: str) -> None:
    async with PythonModel(tmp_path, faulty(statement)) as model:
        first = child_pid(model)
        batch = await model.run(np.float32([1]), np.float32([-1]))
        for index in range(2):
            (response,) = batch.responses_to(index)
            assert response.error is not None
            assert response.error.message == UNHEALTHY
        assert await model.echoes()
        assert child_pid(model) != first
        await gone(first)


async def test_batches_that_were_sent_but_not_begun_run_in_the_next_child(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, faulty("os._exit(1)")) as model:
        batches = [a_batch(model.config, {"IN": np.float32([value])}) for value in (1, -1, 2, 3)]
        ended = []
        for batch in batches:
            model.instance.begin(batch, lambda batch=batch: ended.append(batch), more=batch is not batches[-1])  # type: ignore[misc]
        await until(lambda: len(ended) == 4)
        for batch in batches:
            batch.flush()
        answers = [batch.responses_to(0)[0] for batch in batches]
    assert [answer.error and answer.error.message for answer in answers] == [None, UNHEALTHY, None, None]
    assert [answer.outputs[0].as_numpy()[0] for answer in answers if not answer.error] == [1, 2, 3]


async def test_a_child_that_is_killed_while_idle_is_replaced(tmp_path: Path) -> None:
    async with PythonModel(tmp_path) as model:
        pid = child_pid(model)
        die(pid)
        assert await model.echoes()  # the event loop has not heard of it before


async def test_a_model_that_never_comes_up_again_fails_fast_and_keeps_trying(tmp_path: Path) -> None:
    body = (
        faulty("os._exit(1)")
        + """
    def initialize(self, args):
        if os.path.exists(os.path.join(args["model_repository"], "broken")):
            raise RuntimeError("broken now")
"""
    )
    async with PythonModel(tmp_path, body) as model:
        (tmp_path / "broken").touch()
        assert await model.error(np.float32([-1])) == UNHEALTHY
        assert not model.instance.ready
        assert await model.error(np.float32([1])) == UNHEALTHY
        (tmp_path / "broken").unlink()
        await until(lambda: model.instance.ready)
        assert await model.echoes()


async def test_pauses_between_starts_grow(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, faulty("os._exit(1)")) as model:
        pauses = []
        for _ in range(4):
            await model.error(np.float32([-1]))
            pauses.append(model.instance._backoff.seconds)
    assert pauses == [0.0, 0.1, 0.2, 0.4]


async def test_an_endless_loop_blocks_nobody_else_and_ends_with_the_model(tmp_path: Path) -> None:
    async with PythonModel(tmp_path / "stuck", faulty("\n                while True: pass")) as stuck:
        batch = a_batch(stuck.config, {"IN": np.float32([-1])})
        stuck.instance.begin(batch, lambda: None)
        async with PythonModel(tmp_path / "other") as other:
            assert await other.echoes()
        pid = child_pid(stuck)
        await stuck.close()
        await gone(pid)
    assert batch.complete
    assert batch.answers[0][1].error is not None
    assert batch.answers[0][1].error.message == UNHEALTHY


async def test_memory_that_is_not_to_be_had_is_named_with_its_size(tmp_path: Path) -> None:
    body = """
    def initialize(self, args):
        import resource  # the same refusal as from a full /dev/shm, without filling it
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, resource.RLIM_INFINITY))

    def execute(self, requests):
        sizes = [int(r.inputs()[0].as_numpy()[0]) for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(size, np.float32))]) for size in sizes]
"""
    async with PythonModel(tmp_path, body) as model:
        text = await model.error(np.float32([2_000_000]))
        assert text.startswith(
            "Failed to process the request(s) for model 'echo_0', message: Failed to increase the shared memory pool "
            "size for key 'triton_python_backend_shm_region_echo_0' to "
        )
        assert 8_000_000 < int(text.split("' to ")[1].split()[0]) < 10_000_000
        assert "use '--shm-size' flag to control the shared memory region size. Error: " in text
        batch = await model.run(np.float32([10]), np.float32([2_000_000]), np.float32([300_000]))
        assert batch.arrays_of(0)["OUT"].shape == (10,)
        assert batch.responses_to(1)[0].error is not None
        assert batch.responses_to(1)[0].error.message.startswith(text[:150])
        assert batch.arrays_of(2)["OUT"].shape == (300_000,)


async def test_memory_that_inputs_need_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with PythonModel(tmp_path) as model:

        def full(descriptor: int, offset: int, size: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", full)
            batch = await model.run(np.float32([1]), np.ones(1_000_000, np.float32), np.float32([2]))
        assert batch.arrays_of(0)["OUT"] == 1
        assert batch.arrays_of(2)["OUT"] == 2
        (response,) = batch.responses_to(1)
        assert response.error is not None
        assert "Error: No space left on device" in response.error.message
        assert (await model.run(np.ones(1_000_000, np.float32))).arrays_of(0)["OUT"].shape == (1_000_000,)


async def test_a_first_segment_that_is_not_to_be_had_fails_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(Exception, match=r"to requested size \(1048576 bytes\).*at least 1 MB of shared memory"):
        await PythonModel(tmp_path).__aenter__()


async def test_the_noise_of_a_model_harms_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with PythonModel(tmp_path, faulty("os.write(1, b'noise\\n' * 50000); os.write(2, b'more\\n')")) as model:
        for _ in range(3):
            await model.run(np.float32([-1]))
        assert await model.echoes()
    out, err = capfd.readouterr()
    assert out.count("noise\n") == 150_000
    assert err.count("more\n") == 3


async def test_forks_of_the_model_do_not_answer_and_do_not_survive(tmp_path: Path) -> None:
    statement = """
                self.forked = os.fork()
                if self.forked == 0:
                    if array[0] == -1:
                        os._exit(0)
                    elif array[0] == -2:
                        time.sleep(600)
                array = np.float32([self.forked])"""
    async with PythonModel(tmp_path, faulty(statement)) as model:
        await model.run(np.float32([-1]))
        sleeper = int((await model.run(np.float32([-2]))).arrays_of(0)["OUT"][0])
        await model.run(np.float32([-3]))  # this one even returns from execute
        assert await model.echoes()
        pid = child_pid(model)
        os.kill(pid, signal.SIGKILL)
        await gone(pid, sleeper)
        assert await model.echoes()


def start_script(script: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", script]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, env=environment)


async def test_a_killed_server_leaves_no_process_behind(tmp_path: Path) -> None:
    """Not even a child whose code never returns and holds the interpreter."""
    script = f"""
        import asyncio, sys
        from pathlib import Path
        import numpy as np
        from tests.support.batches import a_batch
        from tests.support.python_models import PythonModel, write_model
        from tests.runtime.backends.test_python_faults import faulty

        async def main():
            body = faulty("print('looping', flush=True)\\n                while True: pass")
            async with PythonModel(Path({str(tmp_path)!r}), body) as model:
                print(model.instance._stub.pid, flush=True)
                model.instance.begin(a_batch(model.config, {{"IN": np.float32([-1])}}), lambda: None)
                await asyncio.sleep(600)

        asyncio.run(main())
    """
    server = start_script(textwrap.dedent(script))
    assert server.stdout is not None
    with server, server.stdout as output:
        child = int(output.readline())
        assert output.readline() == "looping\n"
        server.kill()
    await gone(child)


async def test_nothing_grows_with_many_requests_of_many_sizes(tmp_path: Path) -> None:
    config = an_echo_config()
    before = names_in_shared_memory()
    async with PythonModel(tmp_path, ECHO.replace(".as_numpy())", ".as_numpy() + 1)")) as model:
        random = np.random.default_rng(5)
        arrays = [np.zeros(int(2**power), np.float32) for power in random.uniform(0, 19, 60)]
        sizes = []
        for _ in range(6):
            for array in arrays:
                await model.execute(a_batch(config, {"IN": array}, {"IN": array[:100]}))
            gc.collect()
            sizes.append((model.instance._stub.arena.byte_size, psutil.Process(child_pid(model)).memory_info().rss))
        assert sizes[-1][0] == sizes[1][0]
        assert sizes[-1][1] < sizes[1][1] + (4 << 20)
    assert names_in_shared_memory() <= before


async def test_closing_is_quick(tmp_path: Path) -> None:
    async with PythonModel(tmp_path) as model:
        pid = child_pid(model)
        start = time.monotonic()
        await model.close()
        assert time.monotonic() - start < 4
        await gone(pid)


async def test_threads_that_the_model_left_running_do_not_keep_the_child(tmp_path: Path) -> None:
    body = (
        ECHO
        + """
    def finalize(self):
        threading.Thread(target=time.sleep, args=(600,)).start()
"""
    )
    async with PythonModel(tmp_path, body) as model:
        pid = child_pid(model)
    await gone(pid)


async def test_its_memory_goes_with_the_model(tmp_path: Path) -> None:
    """At once: a garbage collection may be far away."""
    gc.collect()
    gc.disable()
    try:
        before = shared_mappings()
        async with PythonModel(tmp_path) as model:
            batch = await model.run(np.zeros(300_000, np.float32))
            assert shared_mappings() > before
            del batch
        model.backend = None  # type: ignore[assignment]
        assert shared_mappings() == before
    finally:
        gc.enable()


def shared_mappings() -> int:
    """Segments that this process has mapped."""
    return Path("/proc/self/maps").read_text().count("/dev/shm/")


NONSENSE = """
                import stat, struct
                header = lambda size, kind, entry=0, number=1, data=0: struct.pack(
                    "<IBBHII", size, kind, 0, entry, number, data)
                for descriptor in range(3, 64):
                    try:
                        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                            os.write(descriptor, DATA)
                    except OSError:
                        pass
                time.sleep(600)"""


@pytest.mark.parametrize(
    "data",
    [
        "b'\\xff' * 4096",
        "header(0x7fffffff, 20)",
        "header(2, 28, data=2) + b'{}'",  # a notice that says nothing
        "header(2, 21, data=2) + b'[]'",  # a failure without a text
        "header(0, 22, entry=99)",  # a response to a request that is not there
        "header(0, 20, entry=7)",  # seven answers in no bytes
        "header(0, 33, number=2)",  # takes back a segment of the server's
        "header(8, 32, number=5, data=8) + bytes(8)",  # a segment without a descriptor
    ],
)
@pytest.mark.filterwarnings("default")
async def test_a_child_that_sends_nonsense_is_replaced(tmp_path: Path, data: str) -> None:
    async with PythonModel(tmp_path, faulty(NONSENSE.replace("DATA", data))) as model:
        pid = child_pid(model)
        assert await model.error(np.float32([-1])) == UNHEALTHY
        assert await model.echoes()
        await gone(pid)


async def test_a_frame_that_is_left_unfinished_ends_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charonia_runtime.backends.python.instance._STALL_SECONDS", 0.05)
    async with PythonModel(tmp_path, faulty(NONSENSE.replace("DATA", "header(60_000_000, 20)"))) as model:
        assert await model.error(np.float32([-1])) == UNHEALTHY
        assert await model.echoes()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("fault", [OSError(24, "Too many open files"), MemoryError(), RuntimeError("surprise")])
async def test_no_failure_of_a_start_is_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    async with PythonModel(tmp_path) as model:
        before = descriptors()

        def refuse() -> tuple[int, int]:
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr(os, "pipe", refuse)
            die(child_pid(model))
            assert await model.error() == UNHEALTHY
            assert not model.instance.ready
            begin = time.monotonic()
            for _ in range(20):
                assert await model.error() == UNHEALTHY  # at once: the next start is seconds away, and then later
            assert time.monotonic() - begin < 5
        await until(lambda: model.instance.ready)
        assert await model.echoes()
        assert descriptors() <= before


async def test_processes_that_have_left_the_group_of_the_child_are_killed(tmp_path: Path) -> None:
    statement = """
                self.forked = os.fork()
                if self.forked == 0:
                    os.setsid()
                    if array[0] == -2:
                        os.execvp("sleep", ["sleep", "600"])
                    time.sleep(600)
                array = np.float32([self.forked])"""
    async with PythonModel(tmp_path, faulty(statement)) as model:
        left = [int((await model.run(np.float32([which]))).arrays_of(0)["OUT"][0]) for which in (-1, -2)]
        pid = child_pid(model)
        die(pid)
        await gone(pid, *left)
        assert await model.echoes()
        another = int((await model.run(np.float32([-1]))).arrays_of(0)["OUT"][0])
    await gone(another)


async def test_texts_of_exceptions_have_a_limit(tmp_path: Path) -> None:
    async with PythonModel(tmp_path, faulty("raise ValueError('x' * 100_000_000)")) as model:
        text = await model.error(np.float32([-1]))
        assert len(text) < 2 << 20
        assert "... (100000000 characters in all)" in text
        assert await model.echoes()


async def test_messages_have_a_limit(tmp_path: Path) -> None:
    statement = "return [pb_utils.InferenceResponse(error=pb_utils.TritonError('x' * 100_000_000))] * len(requests)"
    async with PythonModel(tmp_path, faulty(statement)) as model:
        assert "bytes is too long" in await model.error(np.float32([-1]))
        assert await model.echoes()


async def test_lines_that_a_model_logs_without_end_are_counted_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with PythonModel(tmp_path, faulty("[pb_utils.Logger.log_info('line') for _ in range(50_000)]")) as model:
        await model.run(np.float32([-1]))
        await until(lambda: any("were dropped" in record.getMessage() for record in caplog.records))
    (told,) = [record.getMessage() for record in caplog.records if "were dropped" in record.getMessage()]
    written = sum(record.getMessage() == "line" for record in caplog.records)
    assert 2000 <= written < 25_000
    assert int(told.split()[0]) == 50_000 - written


async def test_memory_of_a_large_answer_goes_back_with_the_answer(tmp_path: Path) -> None:
    """Not with the next one, which may never come."""
    body = """
    def execute(self, requests):
        sizes = [int(r.inputs()[0].as_numpy()[0]) for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(size, np.float32))]) for size in sizes]
"""
    async with PythonModel(tmp_path, body) as model:
        segments = model.instance._stub.segments
        batch = await model.run(np.float32([30_000_000]))
        assert len(segments) == 2
        del batch
        gc.collect()
        await until(lambda: len(segments) == 1)
        assert (await model.run(np.float32([10]))).arrays_of(0)["OUT"].shape == (10,)
