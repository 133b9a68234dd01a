"""A look at everything, where some of it cannot be read."""

import dataclasses

import pytest

from charonia_operator.cluster import ClusterError
from charonia_operator.naming import INFERENCE_SERVICE, SERVICE_LABEL
from charonia_operator.resources import deployment, http_route
from charonia_operator.store import Store
from charonia_operator.survey import Survey
from tests.support.fake_cluster import FakeCluster
from tests.support.inference_services import SETTINGS, a_body

FORBIDDEN = ClusterError(403, "Forbidden", "may not be listed")


class Namespaces(FakeCluster):
    """Refuses to list what is in `closed` namespaces."""

    closed = frozenset()
    closed_kinds = frozenset()

    def list(self, kind, namespace="", **query):
        if namespace in self.closed and (not self.closed_kinds or kind.kind in self.closed_kinds):
            raise FORBIDDEN
        return (each for each in super().list(kind, **query) if each["metadata"]["namespace"] in {namespace, "default"})


def a_survey(*namespaces):
    survey = Survey(Namespaces(), Store(), dataclasses.replace(SETTINGS, namespaces=namespaces))
    for namespace in namespaces:
        survey.cluster.add(a_body(namespace=namespace))
    return survey


def test_a_namespace_that_is_gone_stops_only_itself():
    survey = a_survey("a", "b")
    assert survey.look() == {("a", "simple"), ("b", "simple")}

    survey.cluster.closed = {"a"}
    survey.cluster.add(a_body("other", namespace="b"))

    assert survey.can_begin() == ""
    assert survey.look() == {("a", "simple"), ("b", "other")}
    assert survey.left_out == {"a"}
    assert survey.incomplete
    assert survey.look() == set()
    assert survey.store.service(("a", "simple")) is None
    survey.cluster.closed = set()
    assert survey.look() == {("a", "simple")}
    assert not survey.incomplete


def test_what_is_left_out_is_said_once(caplog):
    survey = a_survey("a", "b")
    survey.look()
    assert caplog.messages == []

    survey.cluster.closed = {"a"}
    survey.look()
    survey.look()
    assert caplog.messages == [
        "namespace a is left out until it can be read: may not be listed", "namespaces that are watched now: b"
    ]  # fmt: skip

    caplog.clear()
    survey.cluster.closed, survey.cluster.closed_kinds = {"a"}, {"Deployment"}
    survey.look()
    survey.look()
    assert [sorted(message.partition(": ")[2].split(", ")) for message in caplog.messages] == [
        ["a", "b"], ["deployments in a"]
    ]  # fmt: skip

    caplog.clear()
    survey.cluster.closed = set()
    survey.look()
    assert caplog.messages == ["what may not be listed: nothing any more"]


def test_no_namespace_can_be_read():
    survey = a_survey("a", "b")
    survey.cluster.closed = {"a", "b"}

    assert survey.can_begin() == "may not be listed"


@pytest.mark.parametrize("status", [404, 500, 0])
def test_another_fault_than_a_refusal_is_for_later(status):
    """What was seen stays: it may well be there."""
    survey = a_survey("a")
    survey.look()
    survey.cluster.refuse["list", INFERENCE_SERVICE.kind] = ClusterError(status, "Reason", "text")

    with pytest.raises(ClusterError):
        survey.look()
    assert survey.store.services() == [("a", "simple")]


def test_a_kind_that_one_namespace_does_not_show_concerns_that_one():
    survey = a_survey("a", "b")
    survey.cluster.closed, survey.cluster.closed_kinds = {"a"}, {"Deployment"}

    assert survey.look() == {("a", "simple"), ("b", "simple")}
    assert survey.store.unseen("a") == {deployment.RESOURCE: "may not be listed"}
    assert survey.store.unseen("b") == {}


def test_what_lies_in_another_namespace_is_not_taken_for_gone():
    survey = a_survey("a", "b")
    labels = {"app.kubernetes.io/managed-by": "charonia-operator", SERVICE_LABEL: "simple"}
    for namespace in ("a", "b"):
        metadata = {"name": "simple", "namespace": namespace, "uid": namespace, "labels": labels}
        survey.cluster.add({"kind": "Deployment", "metadata": metadata})
    survey.look()

    assert survey.store.children(("a", "simple"))
    assert survey.store.children(("b", "simple"))


def test_kinds_that_the_cluster_does_not_know():
    survey = a_survey("a")
    survey.cluster.refuse["list", "HTTPRoute"] = ClusterError(404, "NotFound", "no such kind")

    survey.look()

    assert http_route.RESOURCE not in survey.known_kinds
    assert survey.appeared == set()
    survey.cluster.refuse.clear()
    survey.look()
    assert survey.appeared == {http_route.RESOURCE}


def test_a_kind_that_appears_between_two_looks():
    """A pass may be the first to notice, by what it could make."""
    survey = a_survey("a")
    survey.cluster.refuse["list", "HTTPRoute"] = ClusterError(404, "NotFound", "no such kind")
    survey.look()
    labels = {SERVICE_LABEL: "simple"}

    survey.store.put(http_route.RESOURCE, {"metadata": {"name": "simple", "namespace": "a", "labels": labels}})

    assert survey.appeared == {http_route.RESOURCE}
