"""Any text of Python becomes UTF-8."""

from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.texts import utf8_bytes, utf8_text
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
