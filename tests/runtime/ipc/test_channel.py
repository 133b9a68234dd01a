import asyncio
import mmap
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from charonia_runtime.ipc.channel import BlockingChannel, ChannelClosedError, LoopChannel
from charonia_runtime.ipc.frames import Frame, FrameKind, encode_frame
from charonia_runtime.ipc.segments import create_segment_file


@pytest.fixture
def ends() -> Iterator[tuple[BlockingChannel, BlockingChannel]]:
    one, other = map(BlockingChannel, socket.socketpair())
    yield one, other
    one.close()
    other.close()


class Received:
    """What a channel on the loop hears."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.closed = asyncio.Event()
        self._arrived = asyncio.Event()

    def receive(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._arrived.set()

    async def wait(self, count: int) -> list[Frame]:
        while len(self.frames) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return self.frames

    def attach(self, channel: BlockingChannel) -> LoopChannel:
        return LoopChannel(channel, asyncio.get_running_loop(), self.receive, self.closed.set)


Ends = tuple[BlockingChannel, BlockingChannel]


def test_frames_cross_in_order(ends: Ends) -> None:
    for number in range(50):
        ends[0].send(encode_frame(3, [bytes([number]) * number], number=number))
    assert [(frame.number, len(frame.body)) for frame in (ends[1].receive() for _ in range(50))] == [
        (number, number) for number in range(50)
    ]


def test_the_end_of_the_peer_is_noticed(ends: Ends) -> None:
    ends[0].send(encode_frame(1))
    ends[0].close()
    assert ends[1].receive().kind == 1
    with pytest.raises(ChannelClosedError):
        ends[1].receive()
    with pytest.raises(ChannelClosedError):
        ends[1].send(encode_frame(1))


def test_a_segment_crosses_with_its_memory(ends: Ends) -> None:
    descriptor = create_segment_file(4096)
    ends[0].send_segment(7, descriptor, 4096)
    with mmap.mmap(descriptor, 4096) as memory:
        memory[:5] = b"hello"
    os.close(descriptor)
    number, received, size = ends[1].take_segment(ends[1].receive())
    with mmap.mmap(received, size) as memory:
        assert (number, memory[:5]) == (7, b"hello")
    os.close(received)


async def test_sending_from_the_loop_never_blocks(ends: Ends) -> None:
    """More than the socket takes waits, segments in their place among the frames."""
    channel = Received().attach(ends[0])
    descriptor = create_segment_file(4096)
    large = bytes(300_000)
    for number in range(20):
        assert channel.send(encode_frame(1, [large], number=number))
        channel.send_segment(number, descriptor, 4096)
    os.close(descriptor)
    seen = []

    def read() -> None:
        for _ in range(40):
            frame = ends[1].receive()
            seen.append((frame.kind, frame.number))
            if frame.kind == FrameKind.SEGMENT:
                os.close(ends[1].take_segment(frame)[1])

    await asyncio.to_thread(read)
    assert seen == [(kind, number) for number in range(20) for kind in (1, FrameKind.SEGMENT)]
    channel.close()


async def test_frames_that_came_before_the_hand_over_are_delivered(ends: Ends) -> None:
    for number in range(3):
        ends[1].send(encode_frame(1, number=number))
    assert ends[0].receive().number == 0
    received = Received()
    channel = received.attach(ends[0])
    ends[1].send(encode_frame(1, number=3))
    assert [frame.number for frame in await received.wait(3)] == [1, 2, 3]
    channel.close()


async def test_the_loop_hears_once_that_the_peer_is_gone(ends: Ends) -> None:
    received = Received()
    channel = received.attach(ends[0])
    ends[1].close()
    await received.closed.wait()
    assert not channel.send(encode_frame(1))
    channel.close()


async def test_threads_may_send_at_the_same_time(ends: Ends) -> None:
    received = Received()
    channel = received.attach(ends[0])
    bodies = [bytes([number]) * 50_000 for number in range(8)]
    threads = [threading.Thread(target=ends[1].send, args=(encode_frame(1, [body]),)) for body in bodies]
    for thread in threads:
        thread.start()
    frames = await received.wait(8)
    assert sorted(bytes(frame.body) for frame in frames) == bodies
    for thread in threads:
        thread.join()
    channel.close()


async def test_what_is_held_leaves_together_and_in_order(ends: Ends) -> None:
    received = Received()
    channel = received.attach(ends[0])
    channel.hold()
    for number in (1, 2):
        assert channel.send(encode_frame(3, number=number))
    descriptor = create_segment_file(4096)
    channel.send_segment(3, descriptor, 4096)
    assert channel.send(encode_frame(3, number=4))
    ends[1].socket.settimeout(0.05)
    frames = [ends[1].receive() for _ in range(3)]
    os.close(ends[1].take_segment(frames[2])[1])
    with pytest.raises(TimeoutError):
        ends[1].receive()
    channel.release()
    assert [frame.number for frame in (*frames, ends[1].receive())] == [1, 2, 3, 4]
    os.close(descriptor)
    channel.close()
    channel.release()
