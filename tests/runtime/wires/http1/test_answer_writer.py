"""What is streamed in one turn of the loop leaves in one write, in order, and none of it later than the turn."""

import asyncio

import pytest

from charonia_runtime.wires.http1.answer_writer import AnswerWriter


class Transport:
    """Keeps what is written; `taken` of it is with the system."""

    def __init__(self):
        self.writes = []
        self.taken = False

    def write(self, data):
        self.writes.append(bytes(data))

    def writelines(self, parts):
        self.writes.append(b"".join(parts))

    def get_write_buffer_size(self):
        return 0 if self.taken else sum(map(len, self.writes))


@pytest.fixture
def transport():
    return Transport()


@pytest.fixture
async def writer(transport):
    writer = AnswerWriter(asyncio.get_running_loop())
    writer.connected(transport)
    return writer


async def test_pieces_of_one_turn_leave_together(writer, transport):
    for piece in (b"head", b"one", b"two"):
        writer.stream(piece)
    assert transport.writes == []
    assert writer.unsent_bytes == 10
    await asyncio.sleep(0)
    assert transport.writes == [b"headonetwo"]
    writer.stream(b"three")
    await asyncio.sleep(0)
    assert transport.writes[1:] == [b"three"]


async def test_a_piece_waits_for_nothing_that_comes_in_a_later_turn(writer, transport):
    writer.stream(b"one")
    asyncio.get_running_loop().call_soon(writer.stream, b"two")
    await asyncio.sleep(0)
    assert transport.writes == [b"one"]
    await asyncio.sleep(0)
    assert transport.writes == [b"one", b"two"]


async def test_more_than_64_kib_do_not_wait(writer, transport):
    writer.stream(bytes(60_000))
    writer.stream(bytes(60_000))
    assert [len(data) for data in transport.writes] == [120_000]
    assert writer.unsent_bytes == 120_000


@pytest.mark.parametrize("size", [3, 100_000])
async def test_whole_answers_leave_at_once_behind_what_was_streamed(writer, transport, size):
    writer.stream(b"one")
    writer.write_answer(b"head", [memoryview(bytes(size))], size)
    writer.write(b"two")
    assert transport.writes == [b"one", b"head" + bytes(size), b"two"]
    await asyncio.sleep(0)
    assert len(transport.writes) == 3


async def test_nothing_is_written_to_a_connection_that_is_gone(writer, transport):
    writer.stream(b"one")
    writer.lost()
    writer.stream(b"two")
    writer.write(b"three")
    writer.write_answer(b"head", [], 0)
    await asyncio.sleep(0)
    assert (transport.writes, writer.unsent_bytes) == ([], 0)
