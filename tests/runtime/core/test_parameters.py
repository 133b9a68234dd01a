"""Texts of parameters as values."""

import pytest

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.parameters import boolean, boolean_of, integer, integer_of


@pytest.mark.parametrize(("text", "value"), [("true", True), ("ON", True), ("1", True), ("False", False), ("0", False)])
def test_truth_values(text: str, value: bool) -> None:
    assert boolean(text) is value


@pytest.mark.parametrize("text", ["", "yes", "2"])
def test_other_words_are_no_truth_values(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        boolean(text)
    assert caught.value.message == f"failed to convert '{text}' to boolean"


def test_numbers_may_have_a_sign_and_spaces_around_them() -> None:
    assert (integer(" -4 "), integer("+7")) == (-4, 7)


@pytest.mark.parametrize("text", ["", "1.5", "many", "1 2"])
def test_other_texts_are_no_numbers(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        integer(text)
    assert caught.value.message == f"failed to convert '{text}' to integral number"


def test_what_is_not_given_has_its_default() -> None:
    assert integer_of({}, "count", 3) == 3
    assert boolean_of({"other": "no"}, "switch", default=True)
