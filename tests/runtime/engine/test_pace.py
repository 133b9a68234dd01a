"""Who is handed several requests at once, and who runs on the event loop."""

from charonia_runtime.engine.pace import Pace


def after(*executions_ns):
    pace = Pace()
    for ns in executions_ns:
        pace.note(ns)
    return pace


def test_briefness_has_to_be_shown():
    assert not Pace().brief
    assert Pace().at_once == 1


def test_brief_executions_are_noticed():
    pace = after(*[10_000] * 100)
    assert pace.brief
    assert pace.at_once == 16


def test_longer_executions_are_handed_over_one_by_one():
    pace = after(*[1_000_000] * 100)
    assert not pace.brief
    assert pace.at_once == 1


def test_a_few_are_handed_over_in_between():
    assert 2 <= after(*[60_000] * 200).at_once <= 4
    assert not after(*[60_000] * 200).brief


def test_a_long_execution_is_not_soon_forgotten():
    assert not after(*[10_000] * 100, 5_000_000, *[10_000] * 900).brief
    assert after(*[10_000] * 100, 5_000_000, *[10_000] * 1000).brief
