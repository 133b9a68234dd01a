"""Which clients are let in, and what a file of tokens may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.access import AccessTokens, parse_tokens
from charonia_runtime.core.errors import InvalidArgumentError

TOKENS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1).filter(
    lambda text: not text.startswith("#")
)


@pytest.mark.parametrize(
    "authorization", [b"one", b"two", b"Bearer one", b"bearer two", b"BEARER one", b" one ", b"Bearer   two "]
)
def test_a_client_with_any_of_the_tokens_is_let_in(authorization):
    assert AccessTokens(["one", "two"]).refusal(authorization) == ""


@pytest.mark.parametrize(
    "authorization",
    [
        b"on",
        b"onee",
        b"One",
        b"one two",
        b"Basic one",
        b"Bearer",
        b"Bearer Bearer one",
        b"Beareone",
        b"\xff",
        b"\x00one",
    ],
)
def test_a_client_with_another_token_is_refused(authorization):
    refusal = AccessTokens(["one", "two"]).refusal(authorization)

    assert refusal == "the access token is not one that this server accepts"


@pytest.mark.parametrize("authorization", [None, b""])
def test_a_client_without_a_token_is_told_how_to_send_one(authorization):
    refusal = AccessTokens(["one"]).refusal(authorization)

    assert refusal == "an access token is required: send 'Authorization: Bearer <token>', or the token alone"


@pytest.mark.parametrize("authorization", [None, b"", b"Bearer ", b" ", b"anything"])
def test_without_tokens_nobody_is_let_in(authorization):
    assert AccessTokens().refusal(authorization)


def test_replaced_tokens_are_valid_no_more():
    tokens = AccessTokens(["old", "both"])

    tokens.replace(["both", "new"])

    assert tokens.refusal(b"old")
    assert not tokens.refusal(b"both")
    assert not tokens.refusal(b"new")


@given(st.lists(TOKENS, min_size=1), st.binary())
def test_exactly_the_tokens_are_let_in(tokens, other):
    access = AccessTokens(tokens)

    assert not any(access.refusal(token.encode()) for token in tokens)
    assert not any(access.refusal(b"Bearer " + token.encode()) for token in tokens)
    shown = other.strip()
    bare = shown[7:].lstrip() if shown[:7].lower() == b"bearer " else shown
    assert bool(access.refusal(other)) == (bare not in {token.encode() for token in tokens})


def test_a_file_has_one_token_a_line():
    assert parse_tokens("# for the gateway\nabc==\n\n  indented  \r\n#off\nlast") == ("abc==", "indented", "last")


@given(st.lists(TOKENS, min_size=1))
def test_what_is_written_one_a_line_is_read(tokens):
    assert parse_tokens("".join(f"{token}\n" for token in tokens)) == tuple(tokens)


@pytest.mark.parametrize("text", ["", "\n \n", "# only a comment\n"])
def test_a_file_without_tokens_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="it holds no token: expected one token a line"):
        parse_tokens(text)


@pytest.mark.parametrize("line", ["Bearer secret", "secret\ttab", "sécret", "sec\x00ret", "secret # why"])
def test_a_line_that_is_no_token_is_named_and_not_repeated(line):
    with pytest.raises(InvalidArgumentError, match="line 2 is no token: expected visible ASCII") as caught:
        parse_tokens(f"fine\n{line}\n")

    assert "secret" not in caught.value.message
    assert "fine" not in caught.value.message
