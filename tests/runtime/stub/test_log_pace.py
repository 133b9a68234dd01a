"""How many lines a model may log."""

from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.stub.log_pace import BURST_LINES, LINES_PER_SECOND, LogPace


def test_a_burst_passes_and_the_rest_is_counted() -> None:
    pace = LogPace(10.0)
    assert sum(pace.admit(10.0) for _ in range(100_000)) == BURST_LINES
    assert pace.take_dropped() == 100_000 - BURST_LINES
    assert pace.take_dropped() == 0
    assert sum(pace.admit(11.0) for _ in range(100_000)) == LINES_PER_SECOND


@given(st.lists(st.floats(0, 0.1), max_size=200))
def test_no_span_of_time_has_more_lines_than_it_may(pauses: list[float]) -> None:
    pace, now, admitted = LogPace(0.0), 0.0, 0
    for pause in pauses:
        now += pause
        admitted += sum(pace.admit(now) for _ in range(50))
        assert admitted <= BURST_LINES + now * LINES_PER_SECOND + 1
