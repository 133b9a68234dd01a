"""Stores that are asked again."""

import pytest

from charonia_runtime.storage.failures import UnreachableError
from charonia_runtime.storage.retrying import Retries


def test_an_endpoint_that_never_answers_is_told_at_once_and_given_up(caplog):
    tried = []

    def call():
        tried.append(1)
        raise UnreachableError("no such host")

    retries = Retries(attempts=1000, first_seconds=0.01, most_seconds=0.01, give_up_seconds=0.2)
    with pytest.raises(UnreachableError):
        retries.run(call)
    assert 1 < len(tried) < 1000
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no such host" in caplog.text
