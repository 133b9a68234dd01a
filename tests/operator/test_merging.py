import pytest

from charonia_operator.pod.merging import merge
from charonia_operator.pod.template import pod_template
from tests.support.inference_services import SETTINGS, a_service


@pytest.mark.parametrize(
    ("base", "patch", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": 1, "b": 2}, {"b": None}, {"a": 1}),
        ({"args": [1, 2]}, {"args": [3]}, {"args": [3]}),
        ({"env": [{"name": "a", "value": "1"}]}, {"env": [{"name": "b"}]}, {"env": [{"name": "a", "value": "1"}, {"name": "b"}]}),
        ({"env": [{"name": "a", "value": "1"}]}, {"env": [{"name": "a", "value": "2"}]}, {"env": [{"name": "a", "value": "2"}]}),
        ({"env": [{"name": "a"}, {"name": "b"}]}, {"env": [{"name": "a", "$patch": "delete"}]}, {"env": [{"name": "b"}]}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": {"b": None, "c": [{"d": None}]}}, {"a": {"c": [{}]}}),
    ],
)  # fmt: skip
def test_strategic_merge(base, patch, merged):
    assert merge(base, patch) == merged


def test_what_the_operator_finds_pods_by_cannot_be_changed():
    patch = {"metadata": {"labels": {"serving.charonia.dev/service": "other", "mine": "1"}}}

    labels = pod_template(a_service(podTemplate=patch), SETTINGS)["metadata"]["labels"]

    assert labels["serving.charonia.dev/service"] == "simple"
    assert labels["mine"] == "1"
