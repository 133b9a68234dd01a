"""Each target over its seeds and some thousand changes of them: what `python -m tests.fuzzing` does for longer."""

import random

import pytest

from tests.fuzzing.target import load_target, target_names

_CHANGES = 3000
_TOKENS = (b"\r\n", b"\0", b"\xff", b":", b"0", b"9" * 20, b"[", b'"', b"{", b"HTTP/1.1", b"\0\0\0\x04\0")


@pytest.mark.parametrize("name", target_names())
def test_no_change_of_a_seed_breaks_it(name: str) -> None:
    target = load_target(name)
    generator = random.Random(name)
    for _ in range(getattr(target, "CHANGES", _CHANGES)):
        data = bytearray(generator.choice(target.SEEDS))
        for _ in range(generator.randrange(4)):
            _change(data, generator)
        target.check(bytes((generator.randrange(6),)) + data if name.startswith("http") else bytes(data))


def _change(data: bytearray, generator: random.Random) -> None:
    place = generator.randrange(len(data) + 1)
    match generator.randrange(5):
        case 0:
            data[place : place + 1] = bytes((generator.randrange(256),))
        case 1:
            del data[place : place + generator.randrange(1, 9)]
        case 2:
            data[place:place] = generator.choice(_TOKENS)
        case 3:
            data[place:place] = data[generator.randrange(len(data) + 1) :][:64]
        case _:
            data[place : place + 1] = bytes((data[place] ^ 1 << generator.randrange(8),)) if place < len(data) else b""
