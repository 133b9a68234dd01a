from dataclasses import replace

import pytest

from charonia_runtime.engine.lifecycle.reload_plan import ReloadPlan, is_modified, plan_reload
from tests.support.models import a_polled


def test_a_first_load_creates_what_the_policy_selects():
    assert plan_reload(a_polled(versions=(1, 2, 3), selected=(2, 3)), None, ()) == ReloadPlan((2, 3), (), ())


@pytest.mark.parametrize(
    ("after", "plan"),
    [
        ({}, ReloadPlan((), (1, 2), ())),
        ({"config_time": 2}, ReloadPlan((), (1, 2), ())),
        ({"document": {"instance_group": [{"count": 2}], "version_policy": {"all": {}}}}, ReloadPlan((), (1, 2), ())),
        ({"document": {"max_batch_size": 4}}, ReloadPlan((1, 2), (), ())),
        ({"others": 2}, ReloadPlan((1, 2), (), ())),
        ({"versions": {1: 1, 2: 2}}, ReloadPlan((2,), (1,), ())),
        ({"versions": (1, 2, 3), "selected": (2, 3)}, ReloadPlan((3,), (2,), (1,))),
        ({"versions": (2,)}, ReloadPlan((), (2,), (1,))),
        ({"versions": (3,)}, ReloadPlan((3,), (), (1, 2))),
    ],
)
def test_reloads(after, plan):
    before = a_polled(versions=(1, 2))

    assert plan_reload(a_polled(**{"versions": (1, 2), **after}), before, (1, 2)) == plan


def test_a_version_that_does_not_serve_is_created():
    polled = a_polled(versions=(1, 2))

    assert plan_reload(polled, polled, (1,)) == ReloadPlan((2,), (1,), ())


def test_other_files_from_elsewhere_are_a_full_reload(tmp_path):
    before = a_polled()
    after = replace(before, entry=replace(before.entry, directory=tmp_path))

    assert plan_reload(after, before, (1,)) == ReloadPlan((1,), (), ())
    assert is_modified(after, before)


def test_an_override_is_always_a_modification():
    before = a_polled()

    assert not is_modified(a_polled(), before)
    assert is_modified(replace(a_polled(), overridden=True), before)
    assert not is_modified(a_polled(), replace(before, overridden=True))
