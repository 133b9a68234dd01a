import pytest

from charonia_operator.drift import differs

OWNED = {
    "f:spec": {"f:a": {}, "f:items": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:value": {}}}, "f:set": {'v:"p"': {}}}
}
WANTED = {"kind": "A", "metadata": {"name": "n"}, "spec": {"a": 1, "items": [{"name": "x", "value": 1}], "set": ["p"]}}


def live(owned=OWNED, **spec):
    entry = {"manager": "charonia-operator", "operation": "Apply", "fieldsV1": owned}
    other = {"manager": "other", "operation": "Update", "fieldsV1": {"f:spec": {"f:foreign": {}}}}
    whole = {"a": 1, "items": [{"name": "x", "value": 1, "default": 2}], "set": ["p"], "foreign": 3, **spec}
    return {"metadata": {"name": "n", "managedFields": [other, entry]}, "spec": whole}


def test_the_same_with_defaults_and_others_fields():
    assert not differs(WANTED, live())


@pytest.mark.parametrize(
    "spec", [{"a": 2}, {"a": None}, {"items": []}, {"items": [{"name": "x", "value": 2}]}, {"set": ["q"]}]
)
def test_a_changed_field(spec):
    assert differs(WANTED, live(**spec))


def test_an_injected_item():
    assert not differs(WANTED, live(items=[{"name": "injected"}, {"name": "x", "value": 1}]))


@pytest.mark.parametrize(
    "wanted",
    [
        {"items": [{"name": "x", "value": 1}], "set": ["p"]},
        {"a": 1, "items": [{"name": "x"}], "set": ["p"]},
        {"a": 1, "items": [], "set": ["p"]},
        {"a": 1, "items": [{"name": "x", "value": 1}], "set": []},
    ],
)
def test_a_field_that_is_not_wanted_any_more(wanted):
    assert differs({**WANTED, "spec": wanted}, live())


@pytest.mark.parametrize(
    ("wanted", "there", "same"),
    [
        ({"limits": {"memory": "1024Mi"}}, {"limits": {"memory": "1Gi"}}, True),
        ({"limits": {"memory": "1024Mi"}}, {"limits": {"memory": "2Gi"}}, False),
        ({"requests": {"cpu": "1000m"}}, {"requests": {"cpu": "1"}}, True),
        ({"sizeLimit": "1024Mi"}, {"sizeLimit": "1Gi"}, True),
        ({"value": "1000m"}, {"value": "1"}, False),
        ({"empty": {}}, {}, True),
        ({"empty": []}, {}, True),
    ],
)
def test_quantities_and_empty_fields(wanted, there, same):
    assert differs({"spec": wanted}, {"metadata": {}, "spec": there}) is not same
