from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.histogram import Histogram
from charonia_runtime.core.statistics import ModelStatistics


def observed(bounds, *values):
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    return histogram


def test_bounds_belong_to_their_bucket():
    histogram = observed((1.0, 5.0), 0.5, 1.0, 1.5, 5.0, 5.1)

    assert (histogram.counts, histogram.sum) == ([2, 2, 1], 13.1)


def test_without_bounds_everything_is_counted():
    assert observed((), 1, 2).counts == [2]


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_together_they_are_what_both_saw(first, second):
    total = observed((2, 7), *first) + observed((2, 7), *second)

    assert (total.counts, total.sum) == (observed((2, 7), *first, *second).counts, sum(first) + sum(second))


def test_other_bounds_begin_anew():
    total = observed((1,), 0, 3) + observed((2, 4), 3)

    assert (total.bounds, total.counts, total.sum) == ((2, 4), [0, 1, 0], 3)


def test_copies_of_a_model_are_added_up():
    total = ModelStatistics()
    total.add(ModelStatistics())
    assert total.first_response is None

    copy = ModelStatistics(first_response=observed((1,), 0))
    total.add(copy)
    total.add(ModelStatistics(first_response=observed((1,), 5)))

    assert total.first_response.counts == [1, 1]
    assert copy.first_response.counts == [1, 0]
