"""Our decoder of HPACK against the `hpack` package's."""

import hpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import ConnectionFault
from charonia_runtime.wires.http2.hpack_fields import FieldDecoder

NAMES = st.sampled_from((b":path", b":method", b"te", b"x", b"grpc-timeout", b"a-longer-name")) | st.binary(max_size=40)
VALUES = st.sampled_from((b"", b"POST", b"/", b"trailers", b"v" * 1500, b"w" * 5000)) | st.binary(max_size=200)
BLOCKS = st.lists(
    st.tuples(st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=6), st.booleans(), st.sampled_from((None, 0, 50, 4096)))
)  # fmt: skip
STRICTER = ("too many table size updates", "an integer that is too long")


@settings(deadline=None, max_examples=150)
@given(BLOCKS)
def test_what_an_encoder_writes(blocks: list[tuple[list[tuple[bytes, bytes, bool]], bool, int | None]]) -> None:
    """Any fields, indexed or not, Huffman or not, with tables that shrink and grow."""
    encoder, oracle, decoder = hpack.Encoder(), hpack.Decoder(), FieldDecoder(1 << 20)
    oracle.max_header_list_size = 1 << 20
    for fields, huffman, table_bytes in blocks:
        if table_bytes is not None:
            encoder.header_table_size = table_bytes
        block = encoder.encode(fields, huffman=huffman)
        before = list(decoder._table)
        decoded, size = decoder.decode(block)

        assert decoded == [tuple(field) for field in oracle.decode(block, raw=True)] == [f[:2] for f in fields]
        assert size == sum(len(name) + len(value) + 32 for name, value in decoded)
        assert list(decoder._table) == list(oracle.header_table.dynamic_entries)
        assert decoder._size == oracle.header_table._current_size
        assert decoder.changed or before == list(decoder._table)


@settings(deadline=None, max_examples=500)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
@example([b"\x3f\xe1\x1f\x82"])
@example([b"\x3f\xe2\x1f"])
@example([b"\x20\x20\x82"])
@example([b"\x20\x20\x20"])
@example([b"\x82\x20"])
@example([b"\x00\x81\xff\x00"])
@example([b"\x7f\x00\x00"])
@example([b"\x40\x01a\x01b", b"\xbe", b"\xbf"])
def test_any_bytes(blocks: list[bytes]) -> None:
    """Both read the same, or neither can."""
    oracle, decoder = hpack.Decoder(), FieldDecoder(1 << 16)
    for block in blocks:
        try:
            expected = [tuple(field) for field in oracle.decode(block, raw=True)]
        except (hpack.HPACKError, IndexError):
            with pytest.raises(ConnectionFault):
                decoder.decode(block)
            return
        try:
            decoded, _ = decoder.decode(block)
        except ConnectionFault as fault:
            assert fault.reason in STRICTER
            return
        assert decoded == expected
        assert list(decoder._table) == list(oracle.header_table.dynamic_entries)


def test_the_list_s_size_is_bounded_while_it_is_read() -> None:
    with pytest.raises(ConnectionFault) as fault:
        FieldDecoder(100).decode(b"\x82" * 1_000_000)

    assert fault.value.code == errors.ENHANCE_YOUR_CALM
