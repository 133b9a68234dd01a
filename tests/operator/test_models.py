"""What pods tell of their models, from a real socket."""

import dataclasses
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from charonia_operator import models
from charonia_operator.models import ModelWatch, Target, ask_for_copy, ask_for_models, ask_pod, parse_index
from charonia_operator.observation import CopyProgress, CopyState, ModelState, PodModels
from charonia_operator.status.model_list import summarize

KEY = ("default", "a")
INDEX = [
    {"name": "a", "version": "1", "state": "READY"},
    {"name": "b", "version": "2", "state": "UNAVAILABLE", "reason": "no such file"},
    {"name": "b", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"},
    {"name": "never-loaded"},
]


@pytest.fixture
def pod():
    """A server whose answer the test chooses."""
    answer = {"status": 200, "body": json.dumps(INDEX).encode()}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            answer["path"], answer["method"] = self.path, self.command
            self.send_response(answer["status"])
            self.send_header("Content-Length", str(len(answer["body"])))
            self.end_headers()
            self.wfile.write(answer["body"])

        do_GET = do_POST  # noqa: N815 - a name that http.server looks for

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    answer["target"] = Target("a-1", "127.0.0.1", server.server_address[1])
    yield answer
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_index(pod):
    report = ask_for_models(pod["target"])

    assert pod["path"] == "/v2/repository/index"
    assert report == PodModels((ModelState("a", "1", "Ready"), ModelState("b", "2", "Unavailable", "no such file")))


def test_the_index_beside_the_metrics(pod):
    report = ask_for_models(dataclasses.replace(pod["target"], is_metrics_port=True))

    assert (pod["method"], pod["path"]) == ("GET", "/v2/repository/index")
    assert [model.name for model in report.models] == ["a", "b"]


def test_a_server_without_an_index_beside_the_metrics(pod):
    pod["body"] = b""

    assert ask_for_models(dataclasses.replace(pod["target"], is_metrics_port=True)).refused


STATUS = {
    "reason": "Denied", "message": "403", "revision": "sha256:ab", "objects": {"total": 3}, "bytes": {"total": 9},
}  # fmt: skip


def test_how_a_pod_follows_its_bucket(pod):
    target = dataclasses.replace(pod["target"], status_port=pod["target"].port)
    pod["body"] = json.dumps(STATUS).encode()

    assert ask_for_copy(target) == CopyState("Denied", "403", "sha256:ab", 3, 9)
    assert ask_pod(target).copy == ask_for_copy(target)
    assert ask_pod(pod["target"]).copy is None


@pytest.mark.parametrize(
    "status", [{}, [], {**STATUS, "revision": ""}, {**STATUS, "objects": 3}, {**STATUS, "bytes": {}}, "text"]
)
def test_a_pod_that_says_nothing_of_its_copy(pod, status):
    pod["body"] = json.dumps(status).encode()

    assert ask_for_copy(dataclasses.replace(pod["target"], status_port=pod["target"].port)) is None
    assert ask_for_copy(Target("a-1", "127.0.0.1", 1, status_port=1)) is None


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_token(pod, status):
    pod["status"] = status

    assert ask_for_models(pod["target"]).refused


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"{"), (200, b"{}"), (200, b"[1]"), (200, b"\xff"), (404, b""), (500, b"[]")]
)
def test_answers_that_are_none(pod, status, body):
    pod["status"], pod["body"] = status, body

    report = ask_for_models(pod["target"])

    assert "pod a-1" in report.error
    assert not report.refused


def test_nobody_there():
    assert "pod a-1" in ask_for_models(Target("a-1", "127.0.0.1", 1)).error


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({}, "does not tell its models"),
        ({"is_metrics_port": True}, "does not tell its models"),
        ({"is_copying": True}, "Copying"),
    ],
    ids=["models", "models beside the metrics", "progress"],
)
def test_a_pod_that_never_answers(monkeypatch, flags, told):
    """It takes the connection, and then nothing comes: the others are asked nevertheless."""
    monkeypatch.setattr(models, "_TIMEOUT_SECONDS", 0.2)
    answers = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        target = Target("a-1", "127.0.0.1", port, status_port=port, **flags)
        thread = threading.Thread(target=lambda: answers.append(ask_pod(target)), daemon=True)
        thread.start()
        thread.join(20)

    assert [told in str(answer) for answer in answers] == [True]
    assert answers[0].copy is None


@pytest.mark.parametrize("state", ["Ready", "Loading", "Unloading", "Unavailable"])
def test_each_state_of_a_version(state):
    assert parse_index([{"name": "a", "version": "1", "state": state.upper()}]) == (ModelState("a", "1", state),)


def test_hostile_names_are_cut():
    (model,) = parse_index([{"name": "n" * 10_000, "version": "1" * 10_000, "state": "READY"}])

    assert (len(model.name), len(model.version)) == (256, 64)


class Watched:
    """A watch over pods whose answers the test chooses; its clock goes by hand."""

    def __init__(self, **answers):
        self.answers, self.changes, self.asked, self.now = answers, [], [], 0.0
        self.watch = ModelWatch(self.changes.append, every_seconds=30, ask=self._ask, clock=lambda: self.now)

    def _ask(self, target):
        self.asked.append(target.pod)
        return self.answers[target.pod]

    def look(self, *targets):
        """What is known, after which every question that was begun has its answer."""
        reports = self.watch.reports(KEY, targets)
        for _ in range(16):
            self.watch._pool.submit(lambda: None).result(5)
        return reports

    def close(self):
        self.watch.forget(KEY)
        self.watch.stop()


@pytest.fixture
def watched():
    made = []

    def make(**answers):
        made.append(Watched(**answers))
        return made[-1]

    yield make
    for each in made:
        each.close()


FIRST, SECOND = Target("first", "10.0.0.1", 8000), Target("second", "10.0.0.2", 8000)
WELL, LOADING = PodModels((ModelState("a", "1", "Ready"),)), PodModels((ModelState("a", "1", "Loading"),))


def test_pods_are_asked_now_and_then(watched):
    """Again after a while, and at once when there are others; `changed` is called only for other answers."""
    watch = watched(first=WELL, second=WELL)

    assert watch.look(FIRST) == {}
    assert watch.look(FIRST) == {"first": WELL}
    assert watch.asked == ["first"]
    assert watch.changes == [KEY]
    assert watch.watch.pause(KEY) == 30
    watch.now = 31.0
    watch.look(FIRST)
    assert watch.asked == ["first", "first"]
    assert watch.changes == [KEY]
    watch.look(FIRST, SECOND)
    assert watch.asked[2:] == ["first", "second"]
    assert watch.look(SECOND) == {"second": WELL}


def test_a_pod_that_becomes_ready_is_asked_at_once(watched):
    """Before, its server may have run without listening."""
    watch = watched(first=PodModels(error="refused"))
    watch.look(FIRST)
    watch.answers["first"] = WELL

    watch.look(dataclasses.replace(FIRST, is_ready=True))

    assert watch.look(dataclasses.replace(FIRST, is_ready=True)) == {"first": WELL}


@pytest.mark.parametrize(
    ("answer", "pauses"),
    [
        (LOADING, [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
        (PodModels(error="refused"), [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
        (PodModels(progress=CopyProgress("Downloading", 9, 1)), [2.0, 4.0, 8.0, 10.0, 10.0, 10.0]),
        (PodModels(error="wants a token", refused=True), [30.0] * 6),
        (WELL, [30.0] * 6),
    ],
)
def test_pods_of_which_more_is_to_come_are_asked_again_soon(watched, answer, pauses):
    watch, found = watched(first=answer), []
    for _ in pauses:
        watch.look(FIRST)
        found.append(watch.watch.pause(KEY))
        watch.now += found[-1]

    assert found == pauses
    assert len(watch.asked) == len(pauses)


def test_others_that_come_while_pods_are_asked_are_not_forgotten(watched):
    """The service is looked at again, whatever the first ones answer."""
    watch, asked, go_on = watched(first=PodModels(), second=WELL), threading.Event(), threading.Event()
    ask = watch.watch._ask

    def wait(target):
        asked.set()
        assert go_on.wait(10)
        return ask(target)

    watch.look(FIRST)
    watch.changes.clear()
    watch.now, watch.watch._ask = 60.0, wait
    watch.watch.reports(KEY, [FIRST])
    assert asked.wait(10)
    watch.watch.reports(KEY, [SECOND])
    go_on.set()
    deadline = time.monotonic() + 10
    while not watch.changes and time.monotonic() < deadline:
        time.sleep(0.01)

    assert watch.changes == [KEY], "the first one told nothing new"
    watch.look(SECOND)
    assert watch.look(SECOND) == {"second": WELL}


def test_a_service_without_pods_is_not_asked(watched):
    watch = watched()

    assert watch.look() == {}
    assert watch.watch.pause(KEY) == 30


PROGRESS = {
    "phase": "Downloading", "reason": "", "revision": "", "bytes": {"total": 80, "done": 20}, "retrying": None,
}  # fmt: skip
AGAIN = {"reason": "Unreachable", "message": "no answer", "seconds": 7}


def test_how_far_a_pod_is_that_copies(pod):
    target = dataclasses.replace(pod["target"], status_port=pod["target"].port, is_copying=True)
    pod["body"] = json.dumps(PROGRESS).encode()
    assert ask_pod(target) == PodModels(progress=CopyProgress("Downloading", 80, 20))

    pod["body"] = json.dumps({**PROGRESS, "retrying": AGAIN}).encode()
    assert ask_pod(target).progress == CopyProgress("Downloading", 80, 20, "Unreachable", "no answer", 7.0)


@pytest.mark.parametrize("body", [b"[]", b"{}", b"text", b'{"phase": "a", "bytes": 3}', b'{"bytes": {"total": []}}'])
def test_a_pod_that_copies_and_says_nothing(pod, body):
    """Such as one of an older operator: the copy goes on, and nobody knows how far it is."""
    pod["body"] = body
    target = dataclasses.replace(pod["target"], status_port=pod["target"].port, is_copying=True)

    assert ask_pod(target) == PodModels(progress=CopyProgress("Copying"))
    assert ask_pod(Target("a-1", "127.0.0.1", 0, status_port=1, is_copying=True)).progress == CopyProgress("Copying")


def test_the_worst_state_counts():
    good, bad = ModelState("a", "1", "Ready"), ModelState("a", "1", "Unavailable", "no")

    summary = summarize([PodModels((good,)), PodModels((bad,)), PodModels((good,))])

    assert summary.rendered()["models"] == [
        {"name": "a", "version": "1", "state": "Unavailable", "reason": "no", "pods": 1}
    ]
    assert (summary.ready, summary.total) == (0, 1)


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        (["Ready", "Loading"], "Loading"),
        (["Loading", "Unloading"], "Unloading"),
        (["Unloading", "Unavailable"], "Unavailable"),
    ],
)
def test_which_state_is_worse(states, worst):
    """Whatever pod is asked first."""
    pods = [PodModels((ModelState("a", "1", state),)) for state in states]

    for reports in (pods, pods[::-1]):
        assert [model.state for model, _ in summarize(reports).models] == [worst]


def test_more_models_than_a_status_holds():
    many = tuple(ModelState(f"m{number}", "1", "Ready") for number in range(600))

    rendered = summarize([PodModels(many)]).rendered()

    assert len(rendered["models"]) == 512
    assert rendered["modelsOmitted"] == 88
    assert rendered["modelsReady"] == "600/600"
