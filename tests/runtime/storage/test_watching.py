"""Copies that follow their store: what settles is copied, what fails leaves the live copy."""

import threading

import pytest

from charonia_runtime.storage.failures import ChurningError
from charonia_runtime.storage.watching import Pace, Watch
from tests.support.stores import a_mirror, a_place, tree_of

ALWAYS = Pace(interval_seconds=0.001, settle_seconds=0.001)


class Diary:
    """Hears of passes; stops the watch after so many."""

    def __init__(self, passes):
        self.stopping = threading.Event()
        self.entries = []
        self._passes = passes

    def succeeded(self, outcome):
        self._write("switched" if outcome.switched else "unchanged")

    def failed(self, error):
        self._write(error.cause)

    def _write(self, entry):
        self.entries.append(entry)
        if len(self.entries) == self._passes:
            self.stopping.set()


@pytest.fixture
def place(tmp_path):
    with a_place("s3", tmp_path) as found:
        found.put("a/1/model", b"1")
        yield found


def watch(mirror, passes):
    diary = Diary(passes)
    Watch(mirror, ALWAYS, diary.stopping, diary.succeeded, diary.failed).run()
    return diary.entries


def test_changes_are_followed(place, tmp_path):
    mirror = a_mirror(place, tmp_path)
    mirror.sync()
    assert watch(mirror, 2) == ["unchanged", "unchanged"]
    place.put("a/2/model", b"2")

    assert watch(mirror, 2) == ["switched", "unchanged"]
    assert tree_of(tmp_path / "models") == {"a/1/model": b"1", "a/2/model": b"2"}


def test_half_an_upload_is_not_copied(place, tmp_path):
    """Files arrive at each look; only the whole of them goes live."""
    mirror = a_mirror(place, tmp_path)
    mirror.sync()
    arriving = [f"b/1/part{number}" for number in range(6)]

    def upload(request):
        if not request.key and arriving:
            place.put(arriving.pop(), b"x")

    place.server.faults.append(upload)

    assert watch(mirror, 1) == ["switched"]
    assert len(tree_of(tmp_path / "models")) == 7


def test_a_store_that_never_settles_is_reported(place, tmp_path):
    mirror = a_mirror(place, tmp_path)
    mirror.sync()
    place.server.faults.append(
        lambda request: None if request.key else place.put("a/2/model", b"%d" % len(place.server.requests))
    )

    assert watch(mirror, 1) == [ChurningError.cause]
    assert tree_of(tmp_path / "models") == {"a/1/model": b"1"}


def test_failures_leave_the_live_copy_and_pass(place, tmp_path):
    mirror = a_mirror(place, tmp_path)
    mirror.sync()
    keys, place.server.keys = place.server.keys, {}

    assert watch(mirror, 2) == ["Denied", "Denied"]
    assert tree_of(tmp_path / "models") == {"a/1/model": b"1"}
    place.server.keys = keys
    assert watch(mirror, 1) == ["unchanged"]


def test_everything_deleted_is_no_reason_to_serve_nothing(place, tmp_path):
    mirror = a_mirror(place, tmp_path)
    mirror.sync()
    place.remove("a/1/model")

    assert watch(mirror, 1) == ["Empty"]
    assert tree_of(tmp_path / "models") == {"a/1/model": b"1"}
