"""Any text of Python becomes UTF-8."""

from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.texts import one_line, one_word, utf8_bytes, utf8_text
from charonia_runtime.protocols.json_output import render

ANY_TEXT = st.text(alphabet=st.characters(codec=None))


@given(ANY_TEXT)
def test_every_text_can_be_written(text: str) -> None:
    utf8_text(text).encode()
    utf8_bytes(text)
    render({text: text})


@given(st.binary())
def test_bytes_of_a_client_come_back_as_they_were(raw: bytes) -> None:
    assert utf8_bytes(raw.decode("utf-8", "surrogateescape")) == raw


def test_halves_of_surrogate_pairs_are_written_as_escapes() -> None:
    assert utf8_text("a\ud800b\udcffé") == "a\\ud800b\\udcffé"
    assert utf8_bytes("a\ud800b\udcffé") == b"a\\ud800b\xff\xc3\xa9"
    assert render("\ud800") == b'"\\\\ud800"'


@given(ANY_TEXT, st.integers(0, 50))
def test_no_text_ends_a_line_of_the_log(text: str, most: int) -> None:
    line, word = one_line(text, most), one_word(text, most)
    assert line.isprintable()
    assert word.isprintable()
    assert not set(word) & set(" \"'\\")
    assert len(line) <= 12 * most + 1
    assert one_line(line, len(line)) == line


def test_texts_for_the_log_stay_readable() -> None:
    assert one_line("no model 'ä'\nE1122 \x1b[31m\u202e", 100) == "no model 'ä'%0AE1122 %1B[31m%E2%80%AE"
    assert one_word("a b'c\"\\\ud800", 100) == "a%20b%27c%22%5C%5Cud800"
    assert one_word("x" * 100, 3) == "xxx…"
