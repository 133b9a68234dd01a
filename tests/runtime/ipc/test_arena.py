import os
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from charonia_runtime.core.errors import InternalError
from charonia_runtime.ipc.arena import Arena, Block, FreeSpace
from charonia_runtime.ipc.segments import BLOCK_HEADER_BYTES, SegmentTable, create_segment_file

KILO = 1 << 10


class Peer:
    """An arena and the other end's view of it."""

    def __init__(self, size: int = 64 * KILO, growth_bytes: int = 64 * KILO) -> None:
        self.own, self.theirs = SegmentTable(), SegmentTable()
        descriptor = create_segment_file(size)
        self.theirs.add(1, os.dup(descriptor), size)
        self.announced: list[int] = []
        self.retracted: list[int] = []
        self.arena = Arena(
            "key",
            self.own,
            first=self.own.add(1, descriptor, size),
            part=(0, size),
            numbers=count(2, 2),
            growth_bytes=growth_bytes,
            announce=self._announce,
            retract=self._retract,
        )

    def _announce(self, number: int, descriptor: int, size: int) -> None:
        self.announced.append(number)
        self.theirs.add(number, os.dup(descriptor), size)

    def _retract(self, number: int) -> None:
        self.retracted.append(number)
        self.theirs.remove(number)

    def borrow(self, block: Block) -> memoryview:
        return self.theirs.borrow(block.segment.number, block.offset, block.size)


class FreeSpaceMachine(RuleBasedStateMachine):
    """Ranges that are taken never overlap; what is given back can be taken again, all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.space = FreeSpace(100, 1100)
        self.taken: dict[int, int] = {}

    @rule(size=st.integers(1, 400))
    def take(self, size: int) -> None:
        start = self.space.take(size)
        if start is None:
            assert self.space.free < 1000
            return
        assert start >= 100
        assert start + size <= 1100
        assert all(start + size <= other or other + length <= start for other, length in self.taken.items())
        self.taken[start] = size

    @rule(choice=st.integers(0, 1000))
    def give(self, choice: int) -> None:
        if self.taken:
            start = sorted(self.taken)[choice % len(self.taken)]
            self.space.give(start, self.taken.pop(start))

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.space.free == 1000 - sum(self.taken.values())

    def teardown(self) -> None:
        for start, size in self.taken.items():
            self.space.give(start, size)
        assert self.space.take(1000) == 100


class ArenaMachine(RuleBasedStateMachine):
    """Blocks keep what is written to them until they are given back, by either end."""

    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer(16 * KILO, 16 * KILO)
        self.held: list[tuple[Block, int]] = []
        self.borrowed: list[tuple[memoryview, int]] = []
        self.fill = count(1)

    @rule(size=st.integers(0, 12 * KILO))
    def allocate(self, size: int) -> None:
        block = self.peer.arena.allocate(size)
        value = next(self.fill) % 256
        block.view[:] = bytes([value]) * size
        self.held.append((block, value))

    @rule(choice=st.integers(0, 100))
    def free(self, choice: int) -> None:
        if self.held:
            self.peer.arena.free(self.held.pop(choice % len(self.held))[0])

    @rule(choice=st.integers(0, 100))
    def lend(self, choice: int) -> None:
        if self.held:
            block, value = self.held.pop(choice % len(self.held))
            self.borrowed.append((self.peer.borrow(block), value))
            self.peer.arena.lend(block)

    @rule(choice=st.integers(0, 100))
    def drop(self, choice: int) -> None:
        if self.borrowed:
            self.borrowed.pop(choice % len(self.borrowed))

    @invariant()
    def contents_are_untouched(self) -> None:
        for block, value in self.held:
            assert block.view == bytes([value]) * block.size
        for view, value in self.borrowed:
            assert view == bytes([value]) * len(view)

    def teardown(self) -> None:
        self.borrowed.clear()
        for block, _ in self.held:
            self.peer.arena.free(block)
        last = self.peer.arena.allocate(15 * KILO)  # everything is collected for it
        self.peer.arena.free(last)
        assert len(self.peer.announced) - len(self.peer.retracted) <= 1


TestFreeSpace = FreeSpaceMachine.TestCase
TestArena = ArenaMachine.TestCase
TestFreeSpace.settings = TestArena.settings = settings(max_examples=50, deadline=None)


def test_blocks_are_aligned() -> None:
    peer = Peer()
    for size in (1, 63, 64, 65, 1000):
        assert peer.arena.allocate(size).offset % BLOCK_HEADER_BYTES == 0


def test_a_block_comes_back_with_the_last_view_of_it() -> None:
    peer = Peer()
    block = peer.arena.allocate(40 * KILO)
    view = peer.borrow(block)
    piece = view[10:20]
    peer.arena.lend(block)
    del view
    assert not block.released
    del piece
    assert block.released
    peer.arena.allocate(40 * KILO)
    assert peer.announced == []


def test_it_grows_and_shrinks_by_segments() -> None:
    peer = Peer()
    small, large = peer.arena.allocate(100 * KILO), peer.arena.allocate(500 * KILO)
    assert peer.announced == [2, 4]
    peer.arena.free(small)
    peer.arena.free(large)
    assert peer.retracted == [2]  # the larger one is kept for the next
    assert peer.arena.allocate(400 * KILO).segment.number == 4


def test_a_huge_segment_is_not_kept() -> None:
    peer = Peer()
    block = peer.arena.allocate(65 << 20)
    peer.arena.free(block)
    assert peer.retracted == [2]
    assert peer.arena.byte_size == 64 * KILO


def test_segments_have_no_name() -> None:
    before = set(Path("/dev/shm").iterdir())
    peer = Peer()
    peer.arena.allocate(100 * KILO)
    assert set(Path("/dev/shm").iterdir()) <= before


def test_memory_that_is_not_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()

    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InternalError) as caught:
        peer.arena.allocate(100 * KILO)
    assert caught.value.message == (
        f"Failed to increase the shared memory pool size for key 'key' to {(64 + 128) * KILO} bytes. If you are running "
        "Triton inside docker, use '--shm-size' flag to control the shared memory region size. Error: No space left on "
        "device"
    )
    monkeypatch.undo()
    peer.arena.allocate(100 * KILO)


def test_a_place_outside_of_a_segment_is_refused() -> None:
    peer = Peer()
    for place in ((1, 64 * KILO, 1), (1, 0, 10), (9, 64, 1)):
        with pytest.raises(InternalError, match="malformed frame"):
            peer.theirs.borrow(*place)
