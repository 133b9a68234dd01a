"""What pods tell of their models, from a real socket."""

import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from charonia_operator.models import ModelWatch, Target, ask_for_copy, ask_for_models, ask_pod, parse_index
from charonia_operator.observation import CopyState, ModelState, PodModels
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


def test_hostile_names_are_cut():
    (model,) = parse_index([{"name": "n" * 10_000, "version": "1" * 10_000, "state": "READY"}])

    assert (len(model.name), len(model.version)) == (256, 64)


def test_pods_are_asked_now_and_then():
    """Again after a while, and at once when there are others; `changed` is called only for other answers."""
    changes, asked, now = [], [], [0.0]
    answers = {"a-1": PodModels(), "a-2": PodModels()}

    def ask(target):
        asked.append(target.pod)
        return answers[target.pod]

    watch = ModelWatch(changes.append, every_seconds=30, ask=ask, clock=lambda: now[0])
    first, second = Target("a-1", "10.0.0.1", 8000), Target("a-2", "10.0.0.2", 8000)

    def look(*targets):
        reports = watch.reports(KEY, targets)
        done = threading.Event()
        for _ in range(16):
            watch._pool.submit(lambda: None).result(5)
        done.set()
        return reports

    assert look(first) == {}
    assert look(first) == {"a-1": PodModels()}
    assert asked == ["a-1"]
    assert changes == [KEY]
    now[0] = 31.0
    look(first)
    assert asked == ["a-1", "a-1"]
    assert changes == [KEY]
    look(first, second)
    assert asked[2:] == ["a-1", "a-2"]
    assert look(second) == {"a-2": PodModels()}
    watch.forget(KEY)
    watch.stop()


def test_the_worst_state_counts():
    good, bad = ModelState("a", "1", "Ready"), ModelState("a", "1", "Unavailable", "no")

    summary = summarize([PodModels((good,)), PodModels((bad,)), PodModels((good,))])

    assert summary.rendered()["models"] == [
        {"name": "a", "version": "1", "state": "Unavailable", "reason": "no", "pods": 1}
    ]
    assert (summary.ready, summary.total) == (0, 1)


def test_more_models_than_a_status_holds():
    many = tuple(ModelState(f"m{number}", "1", "Ready") for number in range(600))

    rendered = summarize([PodModels(many)]).rendered()

    assert len(rendered["models"]) == 512
    assert rendered["modelsOmitted"] == 88
    assert rendered["modelsReady"] == "600/600"
