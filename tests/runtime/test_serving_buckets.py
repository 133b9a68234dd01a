"""`charonia serve --model-repository s3://…`: models straight from a bucket."""

import json
import time
from pathlib import Path

import pytest

from charonia_runtime.storage.failures import LocationError
from charonia_runtime.storage.remote_repositories import RemoteRepositories
from tests.support.processes import ServerProcess, charonia, last_message
from tests.support.stores import a_place

DIGITS = Path(__file__).resolve().parents[2] / "runtime/examples/models/digits"


@pytest.fixture(params=["s3", "oss", "gs", "as"])
def place(request, tmp_path, monkeypatch):
    with a_place(request.param, tmp_path) as found:
        upload(found, "digits")
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


def upload(place, name):
    for path in DIGITS.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            body = path.read_bytes().replace(b'name: "digits"', b'name: "%s"' % name.encode())
            place.put(f"{name}/{path.relative_to(DIGITS)}", body)


def is_ready(server, name):
    return server.get(f"/v2/models/{name}/ready")[0] == 200


def test_a_bucket_is_served_and_its_copy_removed(place, tmp_path):
    with ServerProcess(place.uri, tmp_path / "log") as server:
        assert is_ready(server, "digits")
        assert list(tmp_path.glob("folder*"))

    assert f"| model_repository_path[0] | {place.uri}" in server.log
    assert not list(tmp_path.glob("folder*"))


def test_poll_follows_the_bucket(place, tmp_path):
    with ServerProcess(place.uri, tmp_path / "log", "--model-control-mode=poll", "--repository-poll-secs=1") as server:
        upload(place, "more")
        wait_for(lambda: is_ready(server, "more"))
        keys, place.server.keys = place.server.keys, {}
        wait_for(lambda: f"failed to copy a model repository: access to the {place.noun}" in server.log)
        assert is_ready(server, "digits")
        place.server.keys = keys


def test_an_explicit_load_looks_into_the_bucket(place, tmp_path):
    with ServerProcess(place.uri, tmp_path / "log", "--model-control-mode=explicit") as server:
        upload(place, "more")

        assert server.request("POST", "/v2/repository/models/more/load", b"{}")[0] == 200
        place.server.keys = {}
        status, body = server.request("POST", "/v2/repository/models/digits/load", b"{}")
        assert status == 503
        assert "is denied" in json.loads(body)["error"]


def test_a_bucket_that_denies_stops_the_start(place, tmp_path):
    place.server.keys = {}

    result = charonia("serve", f"--model-repository={place.uri}")

    assert result.returncode == 1
    assert last_message(result.stderr).startswith(
        f"error: creating server: Unavailable - access to the {place.noun} 'models'"
    )
    assert not list(tmp_path.glob("folder*"))


def test_plain_directories_are_themselves(tmp_path):
    repositories = RemoteRepositories([str(tmp_path), f"file://{tmp_path}", "models"])

    repositories.refresh()

    assert repositories.directories == (str(tmp_path), str(tmp_path), "models")
    with pytest.raises(LocationError, match="hdfs:// file-system not supported"):
        RemoteRepositories(["hdfs://bucket/models"])


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
