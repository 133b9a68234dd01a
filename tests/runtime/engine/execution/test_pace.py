"""Who is handed several requests at once, and who runs on the event loop."""

import time
from types import SimpleNamespace

import pytest

from charonia_runtime.engine.execution import pace
from charonia_runtime.engine.execution.pace import Pace, ThreadUse


def after(*executions_ns):
    pace = Pace()
    for ns in executions_ns:
        pace.note(ns)
    return pace


def test_briefness_has_to_be_shown():
    assert not Pace().is_brief
    assert Pace().at_once == 1


def test_brief_executions_are_noticed():
    pace = after(*[10_000] * 100)
    assert pace.is_brief
    assert pace.at_once == 16


def test_longer_executions_are_handed_over_one_by_one():
    pace = after(*[1_000_000] * 100)
    assert not pace.is_brief
    assert pace.at_once == 1


def test_a_few_are_handed_over_in_between():
    assert 2 <= after(*[60_000] * 200).at_once <= 4
    assert after(*[60_000] * 200).is_brief
    assert not after(*[110_000] * 200).is_brief


def test_single_waits_do_not_make_an_instance_slow():
    assert after(*[10_000] * 100, *[500_000, *[10_000] * 9] * 20).is_brief


def test_an_instance_that_is_slow_every_other_time_is_slow():
    assert not after(*[10_000, 200_000] * 200).is_brief


def brief_after(pace, limit):
    """How many brief executions it takes until the pace is brief again."""
    for count in range(limit):
        if pace.is_brief:
            return count
        pace.note(10_000)
    raise AssertionError("never brief again")


def test_long_executions_of_a_thread_are_no_reason_to_be_wary():
    assert after(*[10_000] * 100, 50_000_000, *[10_000] * 20).is_brief


def watched():
    """A brief instance that was long on the loop once."""
    pace = after(*[10_000] * 100)
    assert not pace.is_watched
    pace.note(5_000_000, on_loop=True)
    assert pace.is_watched
    return pace


def test_one_long_execution_on_the_loop_is_watched_only():
    pace = watched()
    assert pace.is_brief
    for _ in range(1000):
        pace.note(10_000, on_loop=True)
    assert not pace.is_watched


def test_what_other_processes_keep_is_not_the_models_fault():
    pace = watched()
    for _ in range(10):
        pace.note(5_000_000, on_loop=True, preempted=True)
        assert pace.is_watched
        for _ in range(20):
            pace.note(10_000, on_loop=True)
        assert pace.is_brief


def test_a_second_long_execution_on_the_loop_is_not_soon_forgotten():
    pace = watched()
    pace.note(5_000_000, on_loop=True)
    assert brief_after(pace, 2000) == 1000
    pace.note(5_000_000, on_loop=True)
    assert brief_after(pace, 3000) == 2000


def test_brief_executions_on_the_loop_restore_trust():
    pace = watched()
    pace.note(5_000_000, on_loop=True)
    brief_after(pace, 2000)
    for _ in range(1000):
        pace.note(10_000, on_loop=True)
    pace.note(5_000_000, on_loop=True)
    pace.note(5_000_000, on_loop=True)
    assert brief_after(pace, 2000) == 1000


def used(user, system, waits):
    return SimpleNamespace(ru_utime=user, ru_stime=system, ru_nvcsw=waits)


@pytest.mark.parametrize(
    ("now", "preempted"),
    [
        (used(5.0002, 2.0002, 9), True),
        (used(5.0006, 2.0, 9), False),
        (used(5.0, 2.0006, 9), False),
        (used(5.0002, 2.0002, 10), False),
    ],
    ids=["mostly without a core", "computing", "in the kernel", "waiting"],
)
def test_what_keeps_a_thread(monkeypatch, now, preempted):
    uses = iter([used(5.0, 2.0, 9), now])
    monkeypatch.setattr(pace, "getrusage", lambda _: next(uses))
    assert ThreadUse().was_preempted(1_000_000) is preempted


def test_a_thread_that_waits_is_not_preempted():
    use = ThreadUse()
    time.sleep(0.002)
    assert not use.was_preempted(2_000_000)
