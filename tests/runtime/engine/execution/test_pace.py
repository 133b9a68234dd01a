"""Who is handed several requests at once, and who runs on the event loop."""

from charonia_runtime.engine.execution.pace import Pace


def after(*executions_ns):
    pace = Pace()
    for ns in executions_ns:
        pace.note(ns)
    return pace


def test_briefness_has_to_be_shown():
    assert not Pace().is_brief(1)
    assert Pace().at_once == 1


def test_brief_executions_are_noticed():
    pace = after(*[10_000] * 100)
    assert pace.is_brief(1)
    assert pace.at_once == 16


def test_many_brief_executions_are_not_brief_together():
    pace = after(*[20_000] * 100)
    assert pace.is_brief(4)
    assert not pace.is_brief(6)


def test_longer_executions_are_handed_over_one_by_one():
    pace = after(*[1_000_000] * 100)
    assert not pace.is_brief(1)
    assert pace.at_once == 1


def test_a_few_are_handed_over_in_between():
    assert 2 <= after(*[60_000] * 200).at_once <= 4
    assert after(*[60_000] * 200).is_brief(1)
    assert not after(*[60_000] * 200).is_brief(2)
    assert not after(*[110_000] * 200).is_brief(1)


def test_single_waits_do_not_make_an_instance_slow():
    assert after(*[10_000] * 100, *[500_000, *[10_000] * 9] * 20).is_brief(1)


def test_an_instance_that_is_slow_every_other_time_is_slow():
    assert not after(*[10_000, 200_000] * 200).is_brief(1)


def brief_after(pace, limit):
    """How many brief executions it takes until the pace is brief again."""
    for count in range(limit):
        if pace.is_brief(1):
            return count
        pace.note(10_000)
    raise AssertionError("never brief again")


def test_long_executions_of_a_thread_are_no_reason_to_be_wary():
    assert after(*[10_000] * 100, 50_000_000, *[10_000] * 20).is_brief(1)


def test_a_long_execution_on_the_loop_is_not_soon_forgotten():
    pace = after(*[10_000] * 100)
    pace.note(5_000_000, on_loop=True)
    assert brief_after(pace, 2000) == 1000
    pace.note(5_000_000, on_loop=True)
    assert brief_after(pace, 3000) == 2000


def test_brief_executions_on_the_loop_restore_trust():
    pace = after(*[10_000] * 100)
    pace.note(5_000_000, on_loop=True)
    brief_after(pace, 2000)
    for _ in range(1000):
        pace.note(10_000, on_loop=True)
    pace.note(5_000_000, on_loop=True)
    assert brief_after(pace, 2000) == 1000
