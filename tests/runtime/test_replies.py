"""One response is one response: none, several, and errors are told at the end."""

import pytest

from charonia_runtime.core.errors import InternalError
from charonia_runtime.core.request import InferenceResponse
from charonia_runtime.replies import SingleResponse


def test_the_flag_may_come_behind_the_response() -> None:
    sink, response = SingleResponse(), InferenceResponse("m", 1, final=False)
    assert not sink.keep(response)
    assert sink.keep(InferenceResponse("m", 1, flag_only=True))
    assert sink.take() is response


@pytest.mark.parametrize("count", [0, 2])
def test_none_and_several_are_the_models_fault(count: int) -> None:
    sink = SingleResponse()
    for _ in range(count):
        assert not sink.keep(InferenceResponse("m", 1, final=False))
    assert sink.keep(InferenceResponse("m", 1, flag_only=True))
    with pytest.raises(InternalError, match=f"expected a single response, got {count}"):
        sink.take()
