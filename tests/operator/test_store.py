from charonia_operator.naming import INFERENCE_SERVICE, POD, SERVICE_LABEL
from charonia_operator.store import Store

KEY = ("default", "a")


def a_pod(name="a-1", version="1", uid="1", service="a"):
    labels = {SERVICE_LABEL: service}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version, "labels": labels}
    }


def test_old_news_is_no_news():
    store = Store()

    assert store.put(POD, a_pod(version="10"))
    assert not store.put(POD, a_pod(version="10"))
    assert not store.put(POD, a_pod(version="9"))
    assert store.put(POD, a_pod(version="11"))
    assert store.put(POD, a_pod(version="2", uid="2")), "another one of that name"


def test_a_list_finds_what_a_watch_lost():
    """Deletions and renames that nobody told of."""
    store = Store()
    store.put(POD, a_pod("gone"))
    store.put(POD, a_pod("stays"))

    store.replace(POD, [a_pod("stays"), a_pod("new")], store.mark())

    assert [pod["metadata"]["name"] for pod in store.pods(KEY)] == ["new", "stays"]


def test_what_is_seen_while_a_list_is_made_counts():
    store = Store()
    store.put(POD, a_pod("deleted"))
    since = store.mark()
    store.put(POD, a_pod("created"))
    store.remove(POD, a_pod("deleted"))

    store.replace(POD, [a_pod("deleted")], since)

    assert [pod["metadata"]["name"] for pod in store.pods(KEY)] == ["created"]


def test_a_late_deletion_does_not_take_the_next_one():
    store = Store()
    store.put(POD, a_pod(uid="2"))

    store.remove(POD, a_pod(uid="1"))

    assert store.pods(KEY)


def test_a_list_of_one_kind_leaves_others():
    store = Store()
    store.put(INFERENCE_SERVICE, {"metadata": {"name": "a", "namespace": "default", "uid": "1"}})

    store.replace(POD, [], store.mark())

    assert store.services() == [KEY]
    assert store.service(KEY)


def test_an_object_that_changes_its_service():
    store = Store()
    store.put(POD, a_pod())

    store.put(POD, a_pod(version="2", service="b"))

    assert store.pods(KEY) == []
    assert store.pods(("default", "b"))


def test_what_nobody_reads_is_not_kept():
    """Of pods' `spec` only the node; nothing of objects that belong to no service."""
    store = Store()
    body = a_pod()
    body["metadata"]["managedFields"] = [{"manager": "other"}]
    body |= {"spec": {"nodeName": "n", "containers": [{"name": "server"}]}, "status": {"podIP": "10.0.0.1"}}
    foreign = a_pod("foreign")
    del foreign["metadata"]["labels"]

    store.put(POD, body)
    store.put(POD, foreign)

    del body["metadata"]["managedFields"]
    assert store.pods(KEY) == [body | {"spec": {"nodeName": "n"}}]
    assert len(store._entries) == 1


def test_a_list_of_some_namespaces_leaves_the_others():
    store = Store()
    store.put(POD, a_pod())

    assert store.replace(POD, [], store.mark(), ["other"]) == set()
    assert store.pods(KEY)
    assert store.replace(POD, [], store.mark(), ["default"]) == {KEY}
    assert store.pods(KEY) == []


def test_what_was_seen_of_a_kind_lives_through_a_list_of_another():
    """A deletion that came while pods were listed is not undone by the list, although services were listed since."""
    store = Store()
    store.put(POD, a_pod("gone"))
    since = store.mark()
    store.remove(POD, a_pod("gone"))
    store.replace(INFERENCE_SERVICE, [], store.mark())

    store.replace(POD, [a_pod("gone")], since)

    assert store.pods(KEY) == []
    store.replace(POD, [a_pod("gone")], store.mark())
    assert store.pods(KEY), "a later list tells of it: it has come again"
