"""kill -9 of `charonia sync` at any point: what is live is always whole, and hardly a byte is fetched twice."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.support.stores import SMALL_PART, a_place, tree_of

PARALLELISM = 3
FILES = {
    **{f"small/{number}/config.pbtxt": b"%d" % number * 50 for number in range(25)},
    "large/1/model.bin": os.urandom(SMALL_PART * 20 + 5),
    "middle/1/model.bin": os.urandom(SMALL_PART - 1),
}
SECOND = {**FILES, "large/1/model.bin": os.urandom(SMALL_PART * 20 + 6), "small/3/config.pbtxt": b"changed"}


@pytest.fixture
def place(tmp_path):
    with a_place("s3", tmp_path) as found:
        found.server.chunk_seconds = 0.004
        yield found


def start(place, directory):
    command = [
        sys.executable, "-m", "charonia_runtime", "sync", place.uri, str(directory / "models"),
        f"--endpoint={place.server.url}", f"--credentials-dir={place.credentials}", f"--part-size={SMALL_PART}",
        f"--parallelism={PARALLELISM}",
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def check_live(directory, allowed):
    """Each model that is shown is one of the allowed ones, byte for byte."""
    models = directory / "models"
    if not models.exists():
        return
    for model in models.iterdir():
        if not model.exists():
            continue  # gone with the switch, its link not yet
        found = {f"{model.name}/{key}": body for key, body in tree_of(model).items()}
        wholes = [{key: body for key, body in tree.items() if key.startswith(f"{model.name}/")} for tree in allowed]
        assert found in wholes


def kill_at_random(place, directory, rng, kills, allowed):
    """Start and kill again and again; then let it finish."""
    for _ in range(kills):
        fetched, delay = place.server.sent_bytes, rng.uniform(0, 0.25)
        process = start(place, directory)
        while place.server.sent_bytes == fetched and process.poll() is None:
            time.sleep(0.001)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        check_live(directory, allowed)
    process = start(place, directory)
    error = process.communicate()[1]
    assert process.returncode == 0, error


def killed_copies(place, directory, seed, kills):
    rng = random.Random(seed)
    for key, body in FILES.items():
        place.put(key, body)
    kill_at_random(place, directory, rng, kills, [FILES])
    assert tree_of(directory / "models") == FILES
    object_bytes = sum(map(len, FILES.values()))
    listings = sum(each.key == "" for each in place.server.requests) * 20_000
    assert place.server.sent_bytes <= object_bytes + listings + (kills + 1) * PARALLELISM * SMALL_PART
    for key, body in SECOND.items():
        place.put(key, body)
    kill_at_random(place, directory, rng, kills, [FILES, SECOND])
    assert tree_of(directory / "models") == SECOND


def test_kills(place, tmp_path):
    killed_copies(place, tmp_path, seed=1, kills=3)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_kills(tmp_path):
    for round_ in range(10):
        directory = tmp_path / str(round_)
        directory.mkdir()
        with a_place("s3", directory) as place:
            place.server.chunk_seconds = 0.004
            killed_copies(place, directory, seed=round_ + 100, kills=5)


@pytest.mark.parametrize("number", range(0, 40, 4))
def test_death_at_every_step_on_the_disk(tmp_path, number):
    """A process that dies at its n-th change of the file system, while a second generation is made and switched to."""
    with a_place("file", tmp_path) as place:
        for key, body in {"a/1/m": b"1", "b/1/m": b"2", "gone/1/m": b"3"}.items():
            place.put(key, body)
        run(place, tmp_path, "")
        first = tree_of(tmp_path / "models")
        place.put("a/1/m", b"4")
        place.put("new/1/m", b"5")
        place.remove("gone/")
        second = tree_of(place.folder)

        for offset in range(4):
            run(place, tmp_path, DIE.format(count=number + offset))
            check_live(tmp_path, [first, second])
        run(place, tmp_path, "")

        assert tree_of(tmp_path / "models") == second
        assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["a", "b", "new"]


DIE = """
import os
left = [{count}]
def counted(call):
    def counting(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
        return call(*arguments, **options)
    return counting
for name in ("rename", "replace", "symlink", "unlink", "mkdir", "link", "pwrite", "utime", "rmdir", "write"):
    setattr(os, name, counted(getattr(os, name)))
"""


def run(place, directory, prelude):
    script = f"{prelude}\nfrom charonia_runtime.syncing import sync\nraise SystemExit(sync({[place.uri, str(directory / 'models')]!r}))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode in {0, 9}, process.stderr
