"""The client of the API server: the requests that it sends, and what it makes of the answers; over a real socket."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from charonia_operator import cluster as module
from charonia_operator import identity
from charonia_operator.cluster import Cluster, ClusterError
from charonia_operator.identity import Account
from charonia_operator.naming import API_VERSION, INFERENCE_SERVICE, POD, ResourceKind
from tests.support.inference_services import a_body

DEPLOYMENT = ResourceKind("apps/v1", "Deployment", "deployments")
CHILD = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n", "uid": "one"}}
SERVICES = f"/apis/{API_VERSION}/namespaces/default/inferenceservices"


class Answering:
    """An API server whose answers the test chooses, the last one again and again; it keeps the requests."""

    def __init__(self):
        self.answers, self.requests = [(200, {}, {})], []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                address = urlsplit(self.path)
                query = {name: value for name, (value,) in parse_qs(address.query).items()}
                server.requests.append((self.command, address.path, query, json.loads(body or "null"), self.headers))
                status, headers, answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
                text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(text))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names that http.server looks for

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def answer(self, body, status=200, **headers):
        """To the next request, after those that were given before."""
        given = (status, {name.replace("_", "-"): value for name, value in headers.items()}, body)
        self.answers = [*([] if self.answers == [(200, {}, {})] else self.answers), given]

    @property
    def last(self):
        """Method, path, query and body of the last request."""
        return self.requests[-1][:4]


@pytest.fixture
def server():
    answering = Answering()
    thread = threading.Thread(target=answering.http.serve_forever, args=(0.01,))
    thread.start()
    yield answering
    answering.http.shutdown()
    thread.join()
    answering.http.server_close()


def configure(path, url, monkeypatch):
    named = {"name": "a"}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{**named, "cluster": {"server": url}}], "users": [{**named, "user": {"token": "of-the-config"}}],
        "contexts": [{**named, "context": {"cluster": "a", "user": "a"}}],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))


@pytest.fixture
def cluster(server, tmp_path, monkeypatch):
    configure(tmp_path / "config", server.url, monkeypatch)
    made = Cluster(connections=1)
    yield made
    made._api.rest_client.pool_manager.clear()


def test_a_list_is_read_page_by_page(cluster, server):
    server.answer({"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "next"}})
    server.answer({"items": [{"metadata": {"name": "b"}}], "metadata": {}})

    found = list(cluster.list(DEPLOYMENT, "n", labelSelector="x=y"))

    head = {"apiVersion": "apps/v1", "kind": "Deployment"}
    assert found == [{**head, "metadata": {"name": "a"}}, {**head, "metadata": {"name": "b"}}]
    (_, path, first, *_), (_, _, second, *_) = server.requests
    assert path == "/apis/apps/v1/namespaces/n/deployments"
    assert first == {"limit": "50", "labelSelector": "x=y"}
    assert second == {**first, "continue": "next"}


def test_a_list_of_all_namespaces(cluster, server):
    server.answer({"items": [], "metadata": {}})

    assert list(cluster.list(POD)) == []
    assert server.last == ("GET", "/api/v1/pods", {"limit": "50"}, None)


def test_one_object(cluster, server):
    server.answer(CHILD)

    assert cluster.get(DEPLOYMENT, "n", "a") == CHILD
    assert server.last == ("GET", "/apis/apps/v1/namespaces/n/deployments/a", {}, None)
    assert server.requests[0][4]["Authorization"] == "Bearer of-the-config"


def test_an_object_that_is_not_there(cluster, server):
    server.answer({"reason": "NotFound", "message": "no"}, 404)
    assert cluster.get(DEPLOYMENT, "n", "a") is None

    server.answers = [(403, {}, {"reason": "Forbidden", "message": "no"})]
    with pytest.raises(ClusterError, match=r"^no$"):
        cluster.get(DEPLOYMENT, "n", "a")


@pytest.mark.parametrize(("uids", "there"), [(["uid-of-simple"], True), (["another"], False), ([], False)])
def test_a_service_is_there_while_its_uid_is(cluster, server, uids, there):
    server.answer({"items": [{"metadata": {"uid": uid}} for uid in uids], "metadata": {}})

    assert cluster.has(a_body()) is there
    assert server.last == ("GET", SERVICES, {"limit": "50", "fieldSelector": "metadata.name=simple"}, None)


def test_an_apply_takes_the_fields_from_whoever_has_them(cluster, server):
    server.answer({"metadata": {"resourceVersion": "7"}})

    assert cluster.apply(DEPLOYMENT, CHILD) == {"metadata": {"resourceVersion": "7"}}

    forced = {"fieldManager": "charonia-operator", "force": "true"}
    assert server.last == ("PATCH", "/apis/apps/v1/namespaces/n/deployments/a", forced, CHILD)
    assert server.requests[0][4]["Content-Type"] == "application/apply-patch+yaml"


def test_what_is_created_is_not_there_before(cluster, server):
    """A version that no object has: an apply of it is refused where there is an object."""
    cluster.create(DEPLOYMENT, CHILD)

    assert server.last[3] == {**CHILD, "metadata": {**CHILD["metadata"], "resourceVersion": "1"}}
    assert "resourceVersion" not in CHILD["metadata"]


def test_a_status_is_that_of_one_service_and_not_of_the_next_one_of_its_name(cluster, server):
    cluster.apply_status(a_body(), {"replicas": 1})

    method, path, query, body = server.last
    assert (method, path, query["force"]) == ("PATCH", f"{SERVICES}/simple/status", "true")
    assert body == {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {"name": "simple", "namespace": "default", "uid": "uid-of-simple"},
        "status": {"replicas": 1},
    }


def test_a_deletion_is_of_one_object_and_not_of_the_next_one_of_its_name(cluster, server):
    cluster.delete(DEPLOYMENT, CHILD)

    options = {"preconditions": {"uid": "one"}, "propagationPolicy": "Background"}
    assert server.last == ("DELETE", "/apis/apps/v1/namespaces/n/deployments/a", {}, options)
    assert server.requests[0][4]["Content-Type"] == server.requests[0][4]["Accept"] == "application/json"


@pytest.mark.parametrize("status", [404, 409])
def test_what_is_gone_is_deleted(cluster, server, status):
    server.answer({"reason": "a", "message": "b"}, status)

    cluster.delete(DEPLOYMENT, CHILD)

    assert len(server.requests) == 1


def test_a_deletion_that_is_refused(cluster, server):
    server.answer({"reason": "Forbidden", "message": "you may not"}, 403)

    with pytest.raises(ClusterError, match="you may not"):
        cluster.delete(DEPLOYMENT, CHILD)


def test_events_of_a_pod_come_latest_first(cluster, server):
    times = ["2026-01-01T00:00:00Z", None, "2026-01-02T00:00:00Z"]
    server.answer({"items": [{"lastTimestamp": time} for time in times], "metadata": {}})

    events = cluster.events_of({"metadata": {"namespace": "n", "uid": "one"}})

    assert [event["lastTimestamp"] for event in events] == [times[2], times[0], None]
    assert server.last[1:3] == (
        "/api/v1/namespaces/n/events",
        {"limit": "50", "fieldSelector": "involvedObject.uid=one"},
    )


def test_an_event(cluster, server):
    body = a_body()
    body["metadata"]["resourceVersion"] = "7"
    cluster.record_event(body, warning=True, reason="CrashLoop", message="m" * 2000, now="now")
    cluster.record_event(a_body(), warning=False, reason="Serving", message="well", now="now")

    (_, path, _, first, _), (_, _, _, second, _) = server.requests
    assert path == "/api/v1/namespaces/default/events"
    assert first == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "simple.7.1", "namespace": "default"},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "InferenceService",
            "name": "simple",
            "namespace": "default",
            "uid": "uid-of-simple",
            "resourceVersion": "7",
        },
        "type": "Warning",
        "reason": "CrashLoop",
        "message": "m" * 1000,
        "source": {"component": "charonia-operator"},
        "firstTimestamp": "now",
        "lastTimestamp": "now",
        "count": 1,
    }
    assert (second["metadata"]["name"], second["type"]) == ("simple.0.2", "Normal")
    assert second["involvedObject"]["resourceVersion"] == ""


def test_the_schema_of_the_status(cluster, server):
    group = {"group": "serving.charonia.dev", "version": "v1alpha1"}
    kinds = {
        "List": {"x-kubernetes-group-version-kind": [{**group, "kind": "InferenceServiceList"}]},
        "Without": {},
        "One": {
            "x-kubernetes-group-version-kind": [{**group, "kind": "InferenceService"}],
            "properties": {"status": {"type": "object"}},
        },
    }
    server.answer({"components": {"schemas": kinds}})
    assert cluster.status_schema() == {"type": "object"}
    assert server.last[1] == f"/openapi/v3/apis/{API_VERSION}"

    server.answers = [(200, {}, {"components": {"schemas": {"Without": {}}}})]
    assert cluster.status_schema() == {}


@pytest.mark.parametrize(
    ("status", "headers", "body", "told"),
    [
        (403, {}, {"reason": "Forbidden", "message": "you may not"}, (403, "Forbidden", "you may not", 0.0)),
        (429, {"Retry_After": "7"}, {"reason": "TooMany", "message": "a"}, (429, "TooMany", "a", 7.0)),
        (503, {"Retry_After": "soon"}, b"<html>", (503, "Service Unavailable", "Service Unavailable", 0.0)),
        (503, {}, {}, (503, "Service Unavailable", "Service Unavailable", 0.0)),
        (
            500, {}, {"reason": "", "message": "failed to create typed patch object (n/a): expected list"},
            (422, "Invalid", "failed to create typed patch object (n/a): expected list", 0.0),
        ),
    ],
)  # fmt: skip
def test_a_refusal_has_the_words_of_the_api_server(cluster, server, status, headers, body, told):  # noqa: PLR0917
    server.answer(body, status, **headers)

    with pytest.raises(ClusterError) as refusal:
        cluster.apply(DEPLOYMENT, CHILD)

    error = refusal.value
    assert (error.status, error.reason, str(error), error.retry_after) == told


@pytest.mark.parametrize(
    ("status", "passing"),
    [
        (0, True), (401, True), (409, True), (429, True), (500, True), (503, True), (400, False), (403, False),
        (404, False), (422, False), (499, False),
    ],
)  # fmt: skip
def test_refusals_that_pass(status, passing):
    assert ClusterError(status, "", "").passing is passing


def test_an_answer_that_is_no_json(cluster, server):
    server.answer(b"<html>")

    with pytest.raises(ClusterError, match="does not answer") as refusal:
        cluster.get(DEPLOYMENT, "n", "a")

    assert (refusal.value.status, refusal.value.reason) == (0, "NoAnswer")


def test_a_server_that_is_not_there(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    configure(tmp_path / "config", f"http://127.0.0.1:{address[1]}", monkeypatch)

    with pytest.raises(ClusterError, match="does not answer") as refusal:
        Cluster(connections=1).get(DEPLOYMENT, "n", "a")

    assert refusal.value.passing


def test_a_server_that_never_answers(tmp_path, monkeypatch):
    """It takes the connection, and then nothing comes: the worker goes on nevertheless."""
    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.2)
    ended = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(tmp_path / "config", f"http://127.0.0.1:{silent.getsockname()[1]}", monkeypatch)
        client = Cluster(connections=1)

        def ask():
            with pytest.raises(ClusterError) as refusal:
                client.delete(DEPLOYMENT, CHILD)
            ended.append(refusal.value.status)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(20)

    assert ended == [0]


def test_an_operator_that_does_not_lead_reads_and_writes_nothing(server, tmp_path, monkeypatch):
    configure(tmp_path / "config", server.url, monkeypatch)
    standby = Cluster(connections=1, may_write=lambda: False)
    server.answer(CHILD)

    assert standby.get(DEPLOYMENT, "n", "a") == CHILD
    for write in (
        lambda: standby.apply(DEPLOYMENT, CHILD),
        lambda: standby.create(DEPLOYMENT, CHILD),
        lambda: standby.delete(DEPLOYMENT, CHILD),
        lambda: standby.apply_status(a_body(), {}),
        lambda: standby.record_event(a_body(), warning=True, reason="a", message="b", now="c"),
    ):
        with pytest.raises(ClusterError, match="another operator leads") as refusal:
            write()
        assert refusal.value.passing
    assert len(server.requests) == 1


def test_the_token_of_a_service_account_is_read_for_each_request(server, tmp_path, monkeypatch):
    account = Account(server.url, str(tmp_path / "ca.crt"))
    monkeypatch.setattr(module, "service_account", lambda: account)
    monkeypatch.setattr(identity, "ACCOUNT", tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.answer({"items": [], "metadata": {}})
    (tmp_path / "token").write_text("first\n")
    made = Cluster(connections=3)

    list(made.list(INFERENCE_SERVICE))
    (tmp_path / "token").write_text("second\n")
    list(made.list(INFERENCE_SERVICE))

    assert [request[4]["Authorization"] for request in server.requests] == ["Bearer first", "Bearer second"]
    assert made._api.configuration.ssl_ca_cert == account.authorities
    assert made._api.configuration.connection_pool_maxsize == 3


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("10.0.0.1", "6443", "https://10.0.0.1:6443"), ("fd00::1", "443", "https://[fd00::1]:443"),
        ("10.0.0.1", None, "https://10.0.0.1:443"),
    ],
)  # fmt: skip
def test_the_service_account_of_a_pod(tmp_path, monkeypatch, host, port, url):
    monkeypatch.setattr(identity, "ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    if port:
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    assert identity.service_account() is None, "without a token"
    (tmp_path / "token").write_text(" t \n")

    assert identity.service_account() == Account(url, str(tmp_path / "ca.crt"))
    assert identity.token() == "t"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert identity.service_account() is None
