"""Files of access tokens: read at the start, followed afterwards, never a reason to lock everybody out or in."""

import asyncio
import logging
import os

import pytest

from charonia_runtime.access_files import AccessFiles, AccessOptions
from charonia_runtime.core.errors import InvalidArgumentError


class Looks:
    """The clock of `watch`: the test says when the files are looked at."""

    def __init__(self):
        self._next = asyncio.Event()
        self._done = asyncio.Event()

    async def wait(self, seconds):
        assert seconds > 0
        self._done.set()
        await self._next.wait()
        self._next.clear()

    async def look(self):
        """Return when the files were looked at."""
        await self._done.wait()
        self._done.clear()
        self._next.set()
        await self._done.wait()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("first\nsecond\n")
    return path


@pytest.fixture
async def looks():
    return Looks()


@pytest.fixture
async def watched(path, looks):
    """The tokens of the file, which is followed."""
    options = AccessOptions((str(path),))
    files = AccessFiles(options)
    files.open()
    watching = asyncio.create_task(files.watch(looks.wait))
    yield options.tokens
    watching.cancel()


def admits(tokens, token):
    return not tokens.refusal(token.encode())


def replace(path, text):
    """As editors and Kubernetes do it: another file takes the name."""
    path.with_name("new").write_text(text)
    path.with_name("new").rename(path)


async def test_without_the_flag_everybody_is_let_in():
    options = AccessOptions()

    assert options.tokens is None
    AccessFiles(options).open()
    await AccessFiles(options).watch()


def test_before_the_files_are_read_nobody_is_let_in(path):
    tokens = AccessOptions((str(path),)).tokens

    assert not admits(tokens, "first")


def test_the_tokens_of_every_file_are_valid(path, tmp_path):
    (tmp_path / "more").write_text("third")
    options = AccessOptions((str(path), str(tmp_path / "more")))

    AccessFiles(options).open()

    assert all(admits(options.tokens, token) for token in ("first", "second", "third"))


@pytest.mark.parametrize("change", [replace, lambda path, text: path.write_text(text)], ids=["renamed", "rewritten"])
async def test_a_changed_file_is_read_again(path, watched, looks, change):
    change(path, "second\nthird!\n")
    await looks.look()

    assert not admits(watched, "first")
    assert admits(watched, "second")
    assert admits(watched, "third!")


async def test_a_secret_is_followed_through_the_links_that_it_is_mounted_with(tmp_path, looks):
    """`tokens` → `..data/tokens`, `..data` → a folder for each revision, switched by one rename."""
    for revision, token in (("..1", "old"), ("..2", "new")):
        (tmp_path / revision).mkdir()
        (tmp_path / revision / "tokens").write_text(token)
        os.utime(tmp_path / revision / "tokens", (0, 0))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "tokens").symlink_to("..data/tokens")
    options = AccessOptions((str(tmp_path / "tokens"),))
    files = AccessFiles(options)
    files.open()
    watching = asyncio.create_task(files.watch(looks.wait))

    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    await looks.look()

    assert admits(options.tokens, "new")
    assert not admits(options.tokens, "old")
    watching.cancel()


@pytest.mark.parametrize(
    "harm",
    [
        (lambda path: path.unlink(), "No such file or directory"),
        (lambda path: path.write_text(""), "it holds no token"),
        (lambda path: path.write_text("third\nnot a token\n"), "line 2 is no token"),
        (lambda path: path.write_bytes(b"third\n\xff\xfe"), "it is no text"),
        (lambda path: path.write_bytes(b"x" * (1 << 20) + b"x"), "it has 1048577 bytes, at most 1048576 are read"),
        (lambda path: (path.unlink(), path.mkdir()), "it is no regular file"),
    ],
    ids=["missing", "empty", "malformed", "binary", "huge", "directory"],
)
async def test_a_file_that_breaks_keeps_its_tokens_and_is_told_of_once(path, watched, looks, caplog, harm):
    damage, reason = harm
    damage(path)
    for _ in range(3):
        await looks.look()

    assert admits(watched, "first")
    assert admits(watched, "second")
    assert not admits(watched, "third")
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"cannot use --access-token-file '{path}': {reason}")
    assert record.getMessage().endswith("; its last tokens stay valid")


async def test_a_file_that_is_mended_is_used_again(path, watched, looks, caplog):
    caplog.set_level(logging.INFO)
    path.unlink()
    await looks.look()
    path.write_text("third")
    await looks.look()

    assert admits(watched, "third")
    assert not admits(watched, "first")
    assert caplog.messages[-2:] == [
        f"--access-token-file '{path}' can be used again",
        "the access tokens changed; 1 are valid",
    ]


async def test_one_broken_file_does_not_hold_up_another(path, tmp_path, looks):
    other = tmp_path / "other"
    other.write_text("other")
    options = AccessOptions((str(path), str(other)))
    files = AccessFiles(options)
    files.open()
    watching = asyncio.create_task(files.watch(looks.wait))

    path.unlink()
    replace(other, "newer")
    await looks.look()

    assert admits(options.tokens, "first")
    assert admits(options.tokens, "newer")
    assert not admits(options.tokens, "other")
    watching.cancel()


async def test_no_message_ever_holds_a_token(path, watched, looks, caplog):
    caplog.set_level(logging.DEBUG)
    for text in ("third", "fourth and more", "fifth"):
        replace(path, text)
        await looks.look()

    assert len(caplog.messages) == 4
    assert not any(word in caplog.text for word in ("first", "third", "fourth", "fifth"))


@pytest.mark.parametrize("text", [None, "", "#\n"])
def test_an_unusable_file_refuses_the_start(tmp_path, text):
    path = tmp_path / "tokens"
    if text is not None:
        path.write_text(text)

    with pytest.raises(InvalidArgumentError, match=f"cannot use --access-token-file '{path}': "):
        AccessFiles(AccessOptions((str(path),))).open()
