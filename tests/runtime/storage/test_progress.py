"""What is counted of a copy, and what is said of a store that does not answer."""

import pytest

from charonia_runtime.storage.progress import Progress, Refusal


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def progress(clock):
    return Progress(lambda: clock[0])


def test_a_store_that_is_asked_again(progress, clock):
    """The time is that of the first refusal, the words are those of the last one."""
    assert progress.refusal() is None
    progress.refuse("Unreachable", "no answer")
    clock[0] = 7.0
    progress.refuse("Denied", "expired")

    assert progress.refusal() == Refusal("Denied", "expired", 7.0)


@pytest.mark.parametrize(
    "answer", [lambda progress: progress.add(received=1), lambda progress: progress.enter("Downloading")]
)
def test_a_store_that_answers_again(progress, clock, answer):
    progress.refuse("Unreachable", "no answer")

    answer(progress)

    assert progress.refusal() is None
    clock[0] = 9.0
    progress.refuse("Unreachable", "no answer")
    assert progress.refusal() == Refusal("Unreachable", "no answer", 0.0)
