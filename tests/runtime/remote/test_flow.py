"""A model is held back until the other process has taken what it sent."""

from charonia_runtime.remote.flow import RemoteFlow


def resumed(flow):
    calls = []
    flow.when_ready(lambda: calls.append(True))
    return calls


def test_a_few_small_responses_may_be_on_their_way():
    flow = RemoteFlow()
    for _ in range(8):
        assert resumed(flow)
        flow.sent(100)
    held = resumed(flow)
    assert not held
    flow.taken()
    assert held == [True]


def test_only_one_large_response_is_on_its_way():
    flow = RemoteFlow()
    assert resumed(flow)
    flow.sent(1 << 20)
    held = resumed(flow)
    assert not held
    flow.taken()
    assert held == [True]
    assert resumed(flow)


def test_nobody_is_held_back_for_a_client_that_is_gone():
    flow = RemoteFlow()
    for _ in range(8):
        flow.sent(1)
    held = resumed(flow)
    flow.close()
    assert held == [True]
    assert resumed(flow)
