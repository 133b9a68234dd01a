"""`charonia sync` as its users type it."""

import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

import pytest

from charonia_runtime.cli import run
from tests.support.certificates import make_certificate
from tests.support.processes import charonia, free_port
from tests.support.stores import a_place, tree_of


@pytest.fixture(params=["s3", "oss", "gs", "as"])
def place(request, tmp_path):
    with a_place(request.param, tmp_path) as found:
        found.put("a/config.pbtxt", b"a")
        found.put("a/1/")
        yield found


def flags(place):
    return [f"--endpoint={place.server.url}", f"--credentials-dir={place.credentials}"]


def sync(place, tmp_path, *more):
    return charonia(
        "sync", place.uri, f"{tmp_path}/models", *flags(place), f"--status-file={tmp_path}/status.json",
        f"--termination-log={tmp_path}/termination", *more,
    )  # fmt: skip


def test_a_copy_and_what_is_said_of_it(place, tmp_path):
    result = sync(place, tmp_path)

    assert (result.returncode, result.stdout) == (0, "")
    assert tree_of(tmp_path / "models") == {"a/config.pbtxt": b"a", "a/1": None}
    message = json.loads((tmp_path / "termination").read_text())
    status = json.loads((tmp_path / "status.json").read_text())
    assert result.stderr == f"live: 1 objects, 1 B, {message['revision']}\n"
    assert message == {
        "reason": "Synced", "message": f"1 objects, 1 B, {message['revision']}", "revision": message["revision"], "objects": 1,
        "bytes": 1,
    }  # fmt: skip
    assert status["phase"] == status["reason"] == "Synced"
    assert status["objects"] == {"total": 1, "done": 1}
    assert status["bytes"] == {"total": 1, "done": 1, "fetched": 1}
    assert status["generation"].startswith("000001-")
    assert status["revision"] == message["revision"]
    assert sync(place, tmp_path).stderr.startswith("unchanged: 1 objects")


def test_a_failure_names_its_reason(place, tmp_path):
    place.refuse_credentials()

    result = sync(place, tmp_path)

    assert result.returncode == 1
    message = json.loads((tmp_path / "termination").read_text())
    assert message["reason"] == "Denied"
    assert f"access to the {place.noun} 'models' is denied (" in message["message"]
    assert re.search(place.denied, message["message"])
    assert result.stderr == f"charonia sync: Denied: {message['message']}\n"
    assert "the-secret" not in result.stderr + (tmp_path / "status.json").read_text()
    assert json.loads((tmp_path / "status.json").read_text())["phase"] == "Failed"


def test_the_environment_has_credentials_too(place, tmp_path):
    environment = place.environment()

    signed = charonia("sync", place.uri, f"{tmp_path}/models", f"--endpoint={place.server.url}", **environment)
    anonymous = charonia(
        "sync", place.uri, f"{tmp_path}/m2", f"--endpoint={place.server.url}", "--anonymous", **environment
    )

    assert signed.returncode == 0
    assert anonymous.returncode == 1
    assert "the request was not signed" in anonymous.stderr


@pytest.mark.parametrize("style", ["region", "path"])
def test_oss_version_4_signatures_and_path_style(tmp_path, style):
    with a_place("oss", tmp_path) as place:
        place.put("a/config.pbtxt", b"a")
        more = {"region": "--region=cn-test", "path": "--addressing-style=path"}[style]

        assert sync(place, tmp_path, more).returncode == 0
        kinds = {request.headers["Authorization"].split()[0] for request in place.server.requests}
        assert kinds == {{"region": "OSS4-HMAC-SHA256", "path": "OSS"}[style]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["s3://b"], "expected a URI and a directory"),
        (["s3://b", "d", "--once", "--watch"], "--watch: --once and --watch exclude each other"),
        (["s3://b", "d", "--parallelism=0"], "--parallelism: invalid value for --parallelism: expected an integer >= 1, got 0"),
        (["s3://b", "d", "--integrity=md5"], "--integrity: expected Auto, Size, Checksum, Manifest, got 'md5'"),
        (["s3://b", "d", "--integrity=Manifest"], "integrity Manifest needs the key of the manifest"),
        (["s3://b", "d", "--addressing-style=x"], "--addressing-style: expected auto, virtual, path, got 'x'"),
        (["s3://b", "d", "--credentials-key=id"], "--credentials-key: expected <setting>=<file>"),
        (["s3://b", "d", "--wacth"], "unrecognized option '--wacth'; did you mean '--watch'?"),
    ],
)  # fmt: skip
def test_wrong_calls(capsys, arguments, message):
    assert run(["sync", *arguments]) == 2

    assert capsys.readouterr().err.startswith(f"charonia sync: {message}")


def test_help(capsys):
    assert run(["sync", "--help"]) == 0
    assert "--credentials-dir <directory>" in capsys.readouterr().out
    assert run(["sync"]) == 2


@contextmanager
def watching(place, tmp_path, *more):
    command = [
        sys.executable, "-m", "charonia_runtime", "sync", place.uri, f"{tmp_path}/models", "--watch", "--interval-seconds=1",
        "--settle-seconds=0", f"--status-file={tmp_path}/status.json", f"--termination-log={tmp_path}/termination",
        *flags(place), *more,
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_watch_follows_and_ends_with_a_signal(place, tmp_path):
    with watching(place, tmp_path) as process:
        wait_for((tmp_path / "models/a").exists)
        place.put("b/config.pbtxt", b"b")
        wait_for((tmp_path / "models/b").exists)
        place.server.keys = {}
        wait_for(lambda: json.loads((tmp_path / "status.json").read_text())["reason"] == "Denied")
        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 0
    assert tree_of(tmp_path / "models").keys() == {"a/config.pbtxt", "a/1", "b/config.pbtxt"}
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["failures"] >= 1
    assert status["revision"].startswith("sha256:")
    assert status["syncedAt"]


def test_the_status_over_http(place, tmp_path):
    port = free_port()
    with watching(place, tmp_path, f"--status-port={port}") as process:

        def told():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                return json.load(answer)

        wait_for((tmp_path / "models/a").exists)
        wait_for(lambda: told()["reason"] == "Synced")
        place.server.keys = {}
        wait_for(lambda: told()["reason"] == "Denied")
        assert told()["revision"].startswith("sha256:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_store_that_does_not_answer_is_told_while_it_is_asked_again(place, tmp_path):
    port, nobody = free_port(), f"http://127.0.0.1:{free_port()}"
    with watching(place, tmp_path, f"--status-port={port}", f"--endpoint={nobody}") as process:

        def told():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                return json.load(answer)["retrying"]

        wait_for(lambda: listens(port) and told())
        assert told()["reason"] == "Unreachable"
        assert nobody in told()["message"]
        assert "refused" in told()["message"]
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def test_a_port_that_is_taken(place, tmp_path):
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        result = sync(place, tmp_path, f"--status-port={other.getsockname()[1]}")

    assert result.returncode == 1
    assert "cannot serve the status on port" in json.loads((tmp_path / "termination").read_text())["message"]


def test_watch_ends_when_the_first_copy_fails(place, tmp_path):
    place.server.keys = {}
    with watching(place, tmp_path) as process:
        assert process.wait(20) == 1
    assert json.loads((tmp_path / "termination").read_text())["reason"] == "Denied"


def test_a_signal_stops_a_copy_that_is_under_way(place, tmp_path):
    reached = threading.Event()
    place.server.faults.append(lambda request: reached.set() if request.key else None)
    place.server.chunk_seconds = 0.05
    place.put("a/1/model.bin", bytes(8 << 20))
    with watching(place, tmp_path) as process:
        assert reached.wait(20)
        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 1
    assert json.loads((tmp_path / "termination").read_text())["reason"] == "Stopped"
    assert tree_of(tmp_path / "models") == {}


def test_a_private_authority(place, tmp_path):
    made = make_certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    listener = place.server._server
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    place.server.scheme = "https"
    place.write_credentials()

    refused = charonia("sync", place.uri, f"{tmp_path}/models", *flags(place))
    trusted = charonia("sync", place.uri, f"{tmp_path}/models", *flags(place), f"--ca-bundle={made.certificate}")

    assert refused.returncode == 1
    assert "certificate is not trusted" in refused.stderr
    assert trusted.returncode == 0, trusted.stderr


def test_a_folder_needs_no_library_of_a_bucket(tmp_path):
    with a_place("file", tmp_path) as place:
        place.put("a/config.pbtxt", b"a")
        script = (
            "import sys; from charonia_runtime.syncing import sync; "
            f"code = sync({[place.uri, str(tmp_path / 'models')]!r}); "
            "sys.exit(code or bool({'boto3', 'oss2', 'crcmod', 'google', 'azure'} & sys.modules.keys()))"
        )
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
