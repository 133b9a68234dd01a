"""preserve_ordering: responses leave in the order of their requests."""

from hypothesis import given
from hypothesis import strategies as st

from charonia_runtime.core.request import InferenceResponse
from charonia_runtime.engine.execution.ordering import ResponseOrder
from tests.support.requests import a_request


def identities(responses):
    return [(id(request), number) for request, number in responses]


@given(st.lists(st.integers(1, 3), max_size=8), st.randoms(use_true_random=False))
def test_any_order_of_answers_becomes_the_order_of_requests(counts, random):
    order = ResponseOrder()
    requests = [a_request() for _ in counts]
    for request in requests:
        order.add(request)
    expected = [(request, number) for request, count in zip(requests, counts, strict=True) for number in range(count)]
    to_send = [iter(range(count)) for count in counts]
    left, released = list(range(len(counts))), []
    while left:
        index = random.choice(left)
        number = next(to_send[index])
        final = number == counts[index] - 1
        if final:
            left.remove(index)
        response = InferenceResponse("m", number, final=final)
        released += [(request, sent.model_version) for request, sent in order.release(requests[index], response)]
        assert identities(released) == identities(expected)[: len(released)]
    assert len(released) == len(expected)
