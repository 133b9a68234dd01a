"""Header blocks both ways, and what a client cannot do with them."""

from collections.abc import Iterable

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia_runtime.wires.http2 import errors
from charonia_runtime.wires.http2.errors import ConnectionFault, StreamFault
from charonia_runtime.wires.http2.header_blocks import BlockDecoder, encode_block

POST = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a"), (b":authority", b"host")]


def head_of(*fields: tuple[bytes, bytes], start: Iterable[tuple[bytes, bytes]] = POST, ends: bool = False):
    return BlockDecoder(16_384).head(encode_block([*start, *fields]), ends=ends)


@given(
    st.lists(
        st.tuples(
            st.from_regex(rb"[a-z0-9-]{1,150}", fullmatch=True)
            | st.sampled_from((b":status", b"content-type", b"vary")),
            st.binary(max_size=300) | st.sampled_from((b"200", b"", b"gzip, deflate")),
        )
    )
)
def test_blocks_say_their_fields_on_any_connection(fields: list[tuple[bytes, bytes]]) -> None:
    decoder = hpack.Decoder()
    decoder.decode(hpack.Encoder().encode([(b"some", b"thing"), (b"vary", b"x")]))
    table = list(decoder.header_table.dynamic_entries)

    assert list(decoder.decode(encode_block(fields), raw=True)) == fields
    assert list(decoder.header_table.dynamic_entries) == table


def test_the_usual_fields_are_small() -> None:
    assert encode_block([(b":status", b"200")]) == b"\x88"
    assert encode_block([(b"content-type", b"a")]) == b"\x0f\x10\x01a"
    assert encode_block([(b"grpc-status", b"0")]) == b"\x00\x0bgrpc-status\x010"


@pytest.mark.parametrize("size", [126, 127, 128, 254, 255, 16_384])
def test_lengths_at_the_edges_of_their_encoding(size: int) -> None:
    fields = [(b"x" * size, b"y" * size)]

    assert list(hpack.Decoder().decode(encode_block(fields), raw=True)) == fields


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from((
    [*POST, (b"a", b"1")], [*POST, (b"a", b"2")], POST, [*POST, (b"big", b"v" * 2500)], [*POST, (b"other", b"w" * 2500)],
))))  # fmt: skip
def test_cached_heads_are_what_decoding_says(requests: list[list[tuple[bytes, bytes]]]) -> None:
    """An encoder that fills, uses and overflows the table; a decoder that remembers nothing is the oracle."""
    encoder, oracle, decoder = hpack.Encoder(), hpack.Decoder(), BlockDecoder(16_384)
    for fields in requests:
        block = encoder.encode(fields)
        head = decoder.head(block, ends=False)
        assert [tuple(field) for field in oracle.decode(block, raw=True)][4:] == list(head.fields)
        assert fields[4:] == list(head.fields)


def test_blocks_with_literals_are_cached_if_they_leave_the_table_alone() -> None:
    decoder = BlockDecoder(16_384)
    block = encode_block(POST)
    first = decoder.head(block, ends=False)

    assert decoder.head(block, ends=False) is first
    decoder.skip(hpack.Encoder().encode([(b"new", b"entry")]))
    assert decoder.head(block, ends=False) is not first


def test_a_change_of_the_table_s_size_is_a_change() -> None:
    decoder = BlockDecoder(16_384)
    indexed = hpack.Encoder().encode(POST)
    decoder.head(indexed, ends=False)
    block = b"".join(bytes((0x80 | index,)) for index in (131 - 128, 134 - 128, 63, 62))
    first = decoder.head(block, ends=False)

    assert decoder.head(block, ends=False) is first
    decoder.head(b"\x20" + encode_block(POST), ends=False)
    with pytest.raises(ConnectionFault):
        decoder.head(block, ends=False)


def test_the_cache_is_bounded() -> None:
    decoder = BlockDecoder(16_384)
    for number in range(1000):
        decoder.head(encode_block([*POST, (b"x", b"%d" % number * 400)]), ends=False)

    assert sum(map(len, decoder._heads)) < 70_000


@pytest.mark.parametrize(
    "block",
    [
        b"\x80", b"\xff\xff\xff\xff\xff\xff\xff", b"\xc0", b"\x00", b"\x00\x85abc", b"\x41", b"\x00\x01a\x81\x00",
        b"\x20\x20\x20", b"\x3f\xe1\x1f\x20\x20", b"\x3f\xff\xff\x7f", b"\x82\x20", b"\x40\xff",
    ],
)  # fmt: skip
def test_blocks_that_cannot_be_read_end_the_connection(block: bytes) -> None:
    with pytest.raises(ConnectionFault) as fault:
        BlockDecoder(16_384).head(block, ends=False)

    assert fault.value.code == errors.COMPRESSION_ERROR


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_bytes_surprise_it(blocks: list[bytes]) -> None:
    decoder = BlockDecoder(1000)
    for block in blocks:
        try:
            decoder.head(block, ends=False)
        except StreamFault:
            continue
        except ConnectionFault:
            return


def test_a_list_over_the_limit_ends_its_stream_only() -> None:
    decoder = BlockDecoder(1000)
    with pytest.raises(StreamFault) as fault:
        decoder.head(encode_block([*POST, (b"x", b"y" * 1000)]), ends=False)

    assert fault.value.code == errors.ENHANCE_YOUR_CALM
    assert decoder.head(encode_block(POST), ends=False).path == b"/a"


def test_a_bomb_goes_off_outside() -> None:
    """One large entry of the table, named again and again by one byte."""
    decoder = BlockDecoder(16_384)
    decoder.skip(hpack.Encoder().encode([(b"x", b"y" * 4000)], huffman=False))
    with pytest.raises(ConnectionFault):
        decoder.head(b"\xbe" * 16_000, ends=False)


def test_values_may_have_spaces_around_them() -> None:
    """As they may with gRPC's own servers."""
    fields = ((b"a", b" x "), (b"b", b"x\t"))
    assert head_of(*fields).fields == fields


@pytest.mark.parametrize(
    "fields",
    [
        [(b"Upper", b"x")], [(b"", b"x")], [(b"a b", b"x")], [(b"a:", b"x")], [(b"a\0", b"x")], [(b"caf\xc3\xa9", b"x")],
        [(b"a", b"x\r\nb: y")], [(b"a", b"\0")],
        [(b"connection", b"close")], [(b"keep-alive", b"1")], [(b"proxy-connection", b"x")],
        [(b"transfer-encoding", b"chunked")], [(b"upgrade", b"h2c")], [(b"te", b"gzip")], [(b"te", b"trailers, gzip")],
        [(b":late", b"x")], [(b"a", b"x"), (b":path", b"/")], [(b"host", b"other")], [(b"host", b"host"), (b"host", b"h")],
        [(b"content-length", b"-1")], [(b"content-length", b"+1")], [(b"content-length", b"1_0")],
        [(b"content-length", b"1, 1")], [(b"content-length", b"1"), (b"content-length", b"2")],
        [(b"content-length", b"9" * 19)], [(b"content-length", "\u0661".encode())], [(b"content-length", b"")],
    ],
)  # fmt: skip
def test_malformed_fields(fields: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(StreamFault) as fault:
        head_of(*fields)

    assert fault.value.code == errors.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "start",
    [
        [], POST[1:], POST[:1] + POST[2:], POST[:2] + POST[3:], [*POST, POST[0]], [*POST, (b":status", b"200")],
        [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"")],
        [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"a/b")],
        [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"*")],
        [(b":method", b"PO\nST"), (b":scheme", b"http"), (b":path", b"/")],
        [(b":method", b"CONNECT"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"x")],
        [(b":method", b"CONNECT")],
    ],
)  # fmt: skip
def test_malformed_pseudo_headers(start: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(StreamFault) as fault:
        head_of(start=start)

    assert fault.value.code == errors.PROTOCOL_ERROR


def test_what_is_well_formed() -> None:
    head = head_of((b"te", b"trailers"), (b"host", b"HOST"), (b"content-length", b"05"), (b"a", b""), (b"a", b"\xff b"))
    assert head.content_length == 5
    assert head.fields[-2:] == ((b"a", b""), (b"a", b"\xff b"))
    assert head_of(start=POST[:3]).authority == b""
    assert head_of((b"host", b"there"), start=POST[:3]).authority == b"there"
    assert head_of(start=[(b":method", b"OPTIONS"), (b":scheme", b"http"), (b":path", b"*")]).path == b"*"
    assert head_of(start=[(b":method", b"CONNECT"), (b":authority", b"x")]).method == b"CONNECT"
    assert head_of(ends=True).content_length == -1
    assert head_of((b"content-length", b"0"), ends=True).content_length == 0


def test_a_length_without_a_body() -> None:
    with pytest.raises(StreamFault):
        head_of((b"content-length", b"5"), ends=True)


def test_trailers() -> None:
    decoder = BlockDecoder(16_384)
    decoder.check_trailers(encode_block([(b"checksum", b"1")]))
    for fields in ([(b":path", b"/")], [(b"connection", b"close")]):
        with pytest.raises(StreamFault):
            decoder.check_trailers(encode_block(fields))
