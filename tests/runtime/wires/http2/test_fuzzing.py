"""
Hostile clients by the thousand: frames with and without sense, bytes changed, cut anywhere, handlers that do anything.

CHARONIA_FUZZ_INPUTS says how many, CHARONIA_FUZZ_SEED where to begin. A million take some five minutes; give pytest
`-o faulthandler_timeout=0` then.
"""

import os
import random
import resource

import hpack
import pytest

from charonia_runtime.wires.http2.frames import frame_header, rst_stream, settings, window_update
from charonia_runtime.wires.http2.limits import Limits
from charonia_runtime.wires.http2.stream import Receiver, Stream
from tests.support.http2 import HEAD, START, TRAILERS, Calls, Server, data_frame, headers_frame

INPUTS = int(os.environ.get("CHARONIA_FUZZ_INPUTS", "20000"))
SEED = int(os.environ.get("CHARONIA_FUZZ_SEED", "1"))
GROWTH_KIB = 32 * 1024
"""What the process may grow by, whatever the number of inputs."""
NAMES = (":method", ":path", "a", "te", "content-length", "x")
VALUES = ("POST", "/", "trailers", "5", "v" * 150)
NUMBERS = (0, 1, 100, 16_384, 65_535, 2**24 - 1, 2**31 - 1, 2**32 - 1)


class Chaos(Calls):
    """Answers at once, in pieces, later or never; holds and resets."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(echoes=chance.random() < 0.7)
        self._chance = chance

    def begin(self, stream: Stream) -> Receiver | None:
        receiver = super().begin(stream)
        choice = self._chance.randrange(6)
        if choice == 0:
            stream.respond(HEAD, [bytes(self._chance.choice((0, 10, 70_000)))], TRAILERS)
        elif choice == 1:
            stream.send_head(HEAD)
            stream.send_data([bytes(self._chance.randrange(100_000))])
            stream.when_ready(lambda: stream.send_trailers(TRAILERS))
        elif choice == 2:
            stream.reset(8)
        elif choice == 3:
            stream.hold()
        return receiver


def any_block(chance: random.Random) -> bytes:
    fields = [(chance.choice(NAMES), chance.choice(VALUES)) for _ in range(chance.randrange(8))]
    return hpack.Encoder().encode(fields, huffman=chance.random() < 0.5)


def any_frame(chance: random.Random) -> bytes:
    stream = chance.choice((0, 1, 1, 1, 2, 3, 3, 5, 7, 9))
    payload = chance.randbytes(chance.randrange(40))
    return chance.choice((
        lambda: headers_frame(stream, flags=chance.choice((0, 1, 4, 5))),
        lambda: headers_frame(chance.randrange(1, 99, 2)),
        lambda: headers_frame(stream, any_block(chance), chance.choice((4, 5))),
        lambda: frame_header(len(payload), 9, chance.choice((0, 4)), stream) + payload,
        lambda: data_frame(stream, bytes(chance.choice((0, 1, 5, 100, 20_000))), chance.choice((0, 1))),
        lambda: data_frame(stream, payload, chance.choice((8, 9))),
        lambda: rst_stream(stream, chance.randrange(14)),
        lambda: window_update(stream, chance.choice(NUMBERS)),
        lambda: settings([(chance.randrange(8), chance.choice(NUMBERS)) for _ in range(chance.randrange(4))]),
        lambda: frame_header(8, 6, chance.choice((0, 1)), 0) + b"charonia",
        lambda: frame_header(5, 2, 0, stream) + bytes(5),
        lambda: frame_header(len(payload), chance.randrange(256), chance.randrange(256), stream) + payload,
        lambda: payload,
    ))()  # fmt: skip


def mutated(chance: random.Random, frame: bytes) -> bytes:
    changed = bytearray(frame)
    for _ in range(chance.choice((0, 0, 0, 1, 3)) if frame else 0):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def attack(chance: random.Random) -> None:
    limits = Limits(
        stream_window_bytes=chance.choice((1000, 100_000)), connection_window_bytes=70_000, header_list_bytes=2000,
        frame_bytes=chance.choice((16_384, 1 << 20)),
    )  # fmt: skip
    server = Server(Chaos(chance), limits)
    sent = b"".join(mutated(chance, any_frame(chance)) for _ in range(chance.randrange(1, 14)))
    server.send(START * (chance.random() < 0.95) + sent, cut=chance.choice((None, None, None, 13, 200)))
    if chance.random() < 0.1:
        server.connection.drain(server.now)
    if chance.random() < 0.1:
        server.tick(chance.choice((1, 100, 10_000)))
    server.connection.lose()

    assert server.connection.streams == {}
    assert not server.connection.outbox._ready
    assert len(server.rest) <= 9 + 16_384


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_is_raised_and_nothing_is_kept() -> None:
    memory = 0
    for number in range(INPUTS):
        try:
            attack(random.Random(SEED + number))
        except BaseException as error:
            error.add_note(f"CHARONIA_FUZZ_SEED={SEED + number} CHARONIA_FUZZ_INPUTS=1")
            raise
        if number == INPUTS // 10:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < GROWTH_KIB
