import pytest

from charonia_operator.drift import Imprint
from charonia_operator.resources import deployment
from charonia_operator.store import Store

OWNED = {
    "f:spec": {"f:a": {}, "f:items": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:value": {}}}, "f:set": {'v:"p"': {}}}
}
WANTED = {"kind": "A", "metadata": {"name": "n"}, "spec": {"a": 1, "items": [{"name": "x", "value": 1}], "set": ["p"]}}


def live(owned=OWNED, **spec):
    entry = {"manager": "charonia-operator", "operation": "Apply", "fieldsV1": owned}
    other = {"manager": "other", "operation": "Update", "fieldsV1": {"f:spec": {"f:foreign": {}}}}
    whole = {"a": 1, "items": [{"name": "x", "value": 1, "default": 2}], "set": ["p"], "foreign": 3, **spec}
    return {"metadata": {"name": "n", "managedFields": [other, entry]}, "spec": whole}


def differs(wanted, live):
    return Imprint.of(live).differs(wanted)


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


def all_owned(spec):
    return {"f:spec": {f"f:{name}": {} for name in spec}}


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
        ({"text": ""}, {}, True),
        ({"flag": False}, {}, True),
        ({"number": 0}, {}, True),
        ({"number": 0}, {"number": 1}, False),
        ({"items": [{"key": "", "operator": "Exists"}]}, {"items": [{"operator": "Exists"}]}, True),
        ({"inner": {"text": ""}}, {}, True),
        ({"inner": {"text": "a"}}, {}, False),
    ],
)
def test_quantities_and_zero_values(wanted, there, same):
    body = {"metadata": {}, "spec": wanted}

    assert differs(body, live(all_owned(wanted)) | {"spec": there}) is not same


KIND = deployment.RESOURCE


def stored(version, spelled, owned=None):
    body = live(owned or all_owned({"a": 1}), a=spelled)
    body["metadata"] |= {"namespace": "default", "uid": "1", "resourceVersion": version}
    body["metadata"]["labels"] = {"serving.charonia.dev/service": "simple"}
    return body


def a_child(value):
    return {"metadata": {"name": "n", "namespace": "default"}, "spec": {"a": value}}


def test_an_apply_settles_how_a_value_is_spelled():
    """A webhook or the API server may make something else of it: another apply would change nothing."""
    store = Store()
    store.applied(KIND, a_child("wanted"), stored("1", "spelled otherwise"))

    assert not store.drifted(KIND, a_child("wanted"))
    assert store.drifted(KIND, a_child("wanted now"))


def test_what_others_change_after_an_apply():
    store = Store()
    store.applied(KIND, a_child(1), stored("1", 1))

    store.put(KIND, stored("2", 1) | {"status": {"replicas": 1}})
    assert not store.drifted(KIND, a_child(1)), "not the operator's field"
    store.put(KIND, stored("3", 2))
    assert store.drifted(KIND, a_child(1)), "the operator's field"
    store.put(KIND, stored("4", 1))
    assert not store.drifted(KIND, a_child(1)), "changed back"
    store.put(KIND, stored("5", 1, {"f:metadata": {}}))
    assert store.drifted(KIND, a_child(1)), "another manager has taken the field over"


def test_an_older_answer_than_what_a_watch_told():
    """Somebody was quicker: the change is not taken for the operator's own."""
    store = Store()
    store.put(KIND, stored("2", 2))

    store.applied(KIND, a_child(1), stored("1", 1))

    assert store.drifted(KIND, a_child(1))


def test_a_start_goes_by_values():
    store = Store()
    store.put(KIND, stored("1", 1))

    assert store.drifted(KIND, a_child(2))
    assert not store.drifted(KIND, a_child(1))
    assert Store().drifted(KIND, a_child(1)), "there is none"
