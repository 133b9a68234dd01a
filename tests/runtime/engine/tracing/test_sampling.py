import pytest

from tests.support.traces import a_sampler


def taken(sampler, count=10, *, forced=False):
    return [number for number in range(1, count + 1) if sampler.takes(forced=forced)]


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        ({"rate": 1}, list(range(1, 11))),
        ({"rate": 3}, [3, 6, 9]),
        ({"rate": 2, "count": 2}, [2, 4]),
        ({"rate": 0}, []),
        ({"levels": ()}, []),
        ({"count": 0}, []),
    ],
)
def test_every_rate_th_until_the_count_is_used_up(values, numbers):
    assert taken(a_sampler(**values)) == numbers


def test_clients_traces_are_taken_whatever_the_rate():
    assert taken(a_sampler(rate=0), forced=True) == list(range(1, 11))
    assert taken(a_sampler(rate=1000, count=3), forced=True) == [1, 2, 3]
    assert taken(a_sampler(levels=()), forced=True) == []
