"""Schedulers, ensembles and the cache, as clients see them: what a real Triton was heard to answer, to the letter."""

import json
import sys

import pytest

from tests.differential.scheduling.record import ANSWERS, served
from tests.differential.scheduling.scenarios import SCENARIOS

CHARONIA = f"{sys.executable} -m charonia_runtime serve --model-repository={{repository}} {{flags}}"


@pytest.fixture(scope="module")
def recorded():
    return json.loads(ANSWERS.read_text())


@pytest.fixture(scope="module")
def heard(tmp_path_factory):
    """What every scenario hears, one after the other: they share models, whose executions are counted."""
    folder = tmp_path_factory.mktemp("scheduling")
    with served(CHARONIA, folder, folder / "log") as talk:
        return {scenario.__name__: json.loads(json.dumps(scenario(talk))) for scenario in SCENARIOS}


@pytest.mark.parametrize("name", [scenario.__name__ for scenario in SCENARIOS])
def test_the_same_as_triton(name, heard, recorded):
    assert heard[name] == recorded[name]
