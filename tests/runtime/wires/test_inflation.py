"""Compressed bodies that are decompressed in steps."""

import asyncio
import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.wires.inflation import Inflation

EITHER = zlib.MAX_WBITS | 32
MEGABYTE = 1 << 20


async def in_threads(inflation: Inflation) -> Inflation:
    done = asyncio.get_running_loop().create_future()
    inflation.start(lambda: done.set_result(None), done.set_exception)
    async with asyncio.timeout(20):
        await done
    return inflation


@given(st.binary(max_size=3000), st.integers(1, 400), st.booleans())
def test_content_comes_back(piece, times, is_gzip):
    content = piece * times
    body = gzip.compress(content) if is_gzip else zlib.compress(content)
    inflation = Inflation(body, EITHER, len(content))
    inflation.run()
    assert (inflation.content, inflation.is_complete) == (content, True)
    assert not inflation.is_broken
    assert not inflation.is_too_large


@pytest.mark.parametrize("content", [b"", b"abc", bytes(5 * MEGABYTE), random.Random(3).randbytes(3 * MEGABYTE)])
async def test_threads_give_the_same(content):
    inflation = await in_threads(Inflation(gzip.compress(content), EITHER, 8 * MEGABYTE))
    assert inflation.content == content
    assert inflation.is_complete


@pytest.mark.parametrize("size", [0, 100, 512 * 1024 - 1, 512 * 1024, 512 * 1024 + 1, 2 * MEGABYTE])
async def test_the_limit_is_exact(size):
    body = zlib.compress(bytes(size))
    assert (await in_threads(Inflation(body, EITHER, size))).content == bytes(size)
    if size:
        refused = await in_threads(Inflation(body, EITHER, size - 1))
        assert (refused.is_too_large, refused.content) == (True, b"")


async def test_broken_streams_have_no_content():
    content = random.Random(5).randbytes(2 * MEGABYTE)
    body = bytearray(gzip.compress(content))
    body[-6] ^= 1
    for broken in (b"no stream", bytes(body)):
        inflation = await in_threads(Inflation(broken, EITHER, 8 * MEGABYTE))
        assert (inflation.is_broken, inflation.content) == (True, b"")


async def test_streams_that_are_cut_short_give_what_there_is():
    content = bytes(3 * MEGABYTE)
    inflation = await in_threads(Inflation(gzip.compress(content)[:-8], EITHER, 8 * MEGABYTE))
    assert inflation.content == content
    assert not inflation.is_complete
    assert not inflation.is_broken
