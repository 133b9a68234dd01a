"""The threads that look at everything and work the queue off, over a cluster in memory."""

import threading

import pytest

from charonia_operator import workers as module
from charonia_operator.allowance import Allowance
from charonia_operator.cluster import ClusterError
from charonia_operator.leadership import Leadership
from charonia_operator.models import ModelWatch
from charonia_operator.naming import INFERENCE_SERVICE, POD, SERVICE_LABEL
from charonia_operator.observation import PodModels
from charonia_operator.queue import WorkQueue
from charonia_operator.reconcile import Reconciler
from charonia_operator.resources import deployment
from charonia_operator.skew import Skew
from charonia_operator.store import Store
from charonia_operator.survey import Survey
from charonia_operator.workers import Workers
from tests.support.fake_cluster import FakeCluster
from tests.support.inference_services import SETTINGS, a_body
from tests.support.operator_process import eventually

KEY = ("default", "simple")


@pytest.fixture
def workers(monkeypatch):
    monkeypatch.setattr(module, "_SOON_SECONDS", 0.01)
    monkeypatch.setattr(module, "_INCOMPLETE_SECONDS", 0.05)
    cluster, store, queue = FakeCluster(), Store(), WorkQueue()
    models = ModelWatch(queue.add, every_seconds=30, ask=lambda _: PodModels())
    survey = Survey(cluster, store, SETTINGS)
    reconciler = Reconciler(cluster, store, SETTINGS, models, Skew(cluster))
    made = Workers(survey, store, queue, reconciler, SETTINGS, Leadership(cluster, "a"))
    yield made
    made.stop(5)


def test_what_is_there_at_the_start_is_worked_on(workers):
    workers.survey.cluster.add(a_body())

    workers.start()

    eventually(lambda: workers.survey.cluster.named("Deployment"))
    assert workers.ailing == ""


def test_a_look_finds_what_no_watch_told(workers):
    workers.survey.cluster.add(a_body())
    workers.start()
    eventually(lambda: workers.survey.cluster.named("InferenceService").get("status"))

    del workers.survey.cluster.objects["Service", *KEY]
    workers.listed()

    eventually(lambda: workers.survey.cluster.named("Service"))


def test_news_of_a_look(workers):
    """Only of those services whose objects are others than before."""
    workers.survey.cluster.add(a_body())
    workers.survey.cluster.add(a_body("other"))

    assert workers.survey.look() == {KEY, ("default", "other")}
    assert workers.survey.look() == set()
    workers.survey.cluster.add(a_body(replicas=2))
    assert workers.survey.look() == {KEY}


def test_a_kind_that_may_not_be_listed(workers):
    """The others are read; the services hear of it, and of its end."""
    workers.survey.cluster.add(a_body())
    workers.survey.cluster.refuse["list", "Deployment"] = ClusterError(403, "Forbidden", "cannot list deployments")
    workers.start()
    eventually(lambda: "cannot list deployments" in str(workers.survey.cluster.named("InferenceService").get("status")))

    workers.survey.cluster.refuse.clear()

    eventually(lambda: "cannot list deployments" not in str(workers.survey.cluster.named("InferenceService")["status"]))
    assert workers.store.forbidden == {}


@pytest.mark.parametrize("status", [403, 500])
def test_without_the_services_there_is_nothing_to_do_but_to_wait(workers, status):
    workers.survey.cluster.refuse["list", INFERENCE_SERVICE.kind] = ClusterError(status, "Reason", "no")

    with pytest.raises(ClusterError):
        workers.survey.look()


def test_the_definition_is_waited_for_and_that_is_said_once(workers, monkeypatch, caplog):
    monkeypatch.setattr(module, "_DEFINITION_SECONDS", 0.0)
    answers = iter(["no such kind", "no such kind", ""])
    monkeypatch.setattr(Survey, "can_begin", lambda _: next(answers))

    workers.wait_for_definition()

    assert [message.rpartition(": ")[2] for message in caplog.messages] == ["no such kind"]


def test_news_of_children_are_gathered_and_those_of_services_are_not(workers):
    times, now = [], 100.0
    workers.queue._clock = lambda: now
    labels = {"app.kubernetes.io/managed-by": "charonia-operator", SERVICE_LABEL: "simple"}
    pod = {"kind": "Pod", "metadata": {"name": "a-1", "namespace": "default", "uid": "1", "labels": labels}}

    workers.seen(POD, pod, deleted=False)
    times.append(workers.queue._plans[KEY].due - now)
    workers.seen(INFERENCE_SERVICE, a_body(), deleted=False)
    times.append(workers.queue._plans[KEY].due - now)

    assert times == [1.0, 0.0]
    assert workers.queue.take(wait=False) == KEY
    workers.queue.done(KEY)
    workers.seen(POD, pod, deleted=False)
    assert workers.queue._plans == {}, "known already"
    workers.seen(POD, pod, deleted=True)
    assert KEY in workers.queue._plans
    assert workers.store.pods(KEY) == []


def test_the_end_gives_the_lease_back(workers, monkeypatch):
    given = []
    monkeypatch.setattr(Leadership, "give_back", lambda _: given.append(True))
    workers.start()
    assert {thread.name for thread in workers._threads} >= {"leadership", "resync"}

    workers.stop(5)

    assert given == [True]
    assert workers.ailing == ""
    assert not [thread for thread in workers._threads if thread.is_alive()]


def test_a_thread_that_ended_is_told(workers, monkeypatch):
    def fault():
        raise KeyError("of the operator itself")

    monkeypatch.setattr(Survey, "look", lambda _: fault())
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    workers.start()

    assert eventually(lambda: workers.ailing) == "resync"


def test_a_pass_that_fails_is_tried_again(workers):
    workers.survey.cluster.add(a_body())
    workers.survey.cluster.refuse["apply", deployment.RESOURCE.kind] = ClusterError(503, "Unavailable", "no")
    workers.start()
    eventually(lambda: workers.queue._failures.get(KEY))

    workers.survey.cluster.refuse.clear()

    eventually(lambda: workers.survey.cluster.named("Deployment"))


def test_ten_writes_at_once_and_two_a_minute_from_then_on():
    now = [0.0]
    allowance = Allowance(lambda: now[0])

    assert [allowance.wait(KEY, 2) for _ in range(6)] == [0.0] * 5 + [60.0]
    assert allowance.wait(("default", "other"), 2) == 0.0
    now[0] = 45.0
    assert allowance.wait(KEY, 2) == 15.0
    assert allowance.wait(KEY, 1) == 0.0
    assert allowance.wait(KEY, 1) == 15.0
    now[0] = 3600.0
    assert [allowance.wait(KEY, 1) for _ in range(11)] == [0.0] * 10 + [30.0], "no more than ten are saved up"
    allowance.forget(KEY)
    assert allowance.wait(KEY, 10) == 0.0
