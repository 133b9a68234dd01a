"""The commands as their users type them: what they print and how they exit."""

import shutil
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from charonia_runtime import __version__
from charonia_runtime.cli import run
from tests.support.processes import ServerProcess, charonia, last_message

EXAMPLES = Path(__file__).resolve().parents[2] / "runtime/examples/models"


def test_without_arguments_the_help_says_what_there_is(capsys):
    assert run([]) == 0

    shown = capsys.readouterr().out
    assert "serve" in shown
    assert "check" in shown


def test_version(capsys):
    assert run(["--version"]) == 0

    assert capsys.readouterr().out == f"charonia {__version__}\n"


def test_an_unknown_command_is_refused(capsys):
    assert run(["sevre"]) == 2

    assert capsys.readouterr().err == "charonia: there is no command 'sevre', only serve, check, sync\n"


def test_serve_help_lists_the_flags_of_every_part(capsys):
    assert run(["serve", "--help"]) == 0

    shown = capsys.readouterr().out
    for flag in (
        "--model-repository, --model-store", "--http-port <integer>", "--grpc-port", "--metrics-port", "--log-verbose",
        "--trace-config", "--allow-client-shm", "--pinned-memory-pool-byte-size", "--disable-auto-complete-config",
        "--path-prefix </path>", "--access-token-file <file>", "--drain-secs <integer>", "--steady-readiness <boolean>",
    ):  # fmt: skip
        assert flag in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Error: creating server: Invalid argument - --model-repository must be specified"),
        (["--model-repository=x", "--http-prot=1"], "charonia serve: unrecognized option '--http-prot=1'; did you mean '--http-port'?"),
        (["--model-repository=x", "--http-port=abc"], 'Bad option: "--http-port".\nInvalid option value. Got abc'),
        (["--model-repository=x", "--exit-on-error=maybe"], 'Bad option: "--exit-on-error".\ninvalid value for bool option: maybe'),
        (["--model-repository=x", "--backend-config=foo"], "Bad option: \"--backend-config\".\n--backend-config option format is '<backend name>,<setting>=<value>'. Got foo"),
        (["--model-repository=x", "--backend-config=x="], "Bad option: \"--backend-config\".\n--backend-config option format is '<backend name>,<setting>=<value>'. Got x="),
        (["--model-repository=x", "--backend-config==3"], "Bad option: \"--backend-config\".\n--backend-config option format is '<backend name>,<setting>=<value>'. Got =3"),
        (["--model-repository=x", "--backend-config=python,=3"], "Bad option: \"--backend-config\".\n--backend-config option format is '<backend name>,<setting>=<value>'. Got python,=3"),
        (["--model-repository=x", "--backend-config=python,x="], "Bad option: \"--backend-config\".\n--backend-config option format is '<backend name>,<setting>=<value>'. Got python,x="),
        (["--model-repository=x", "--model-load-gpu-limit=-1:0.6"], "Bad option: \"--model-load-gpu-limit\".\n--model-load-gpu-limit option format is '<device id>:<fraction>', with a fraction from 0 to 1. Got -1:0.6"),
        (["--model-repository=x", "--model-load-gpu-limit=0:1.5"], "Bad option: \"--model-load-gpu-limit\".\n--model-load-gpu-limit option format is '<device id>:<fraction>', with a fraction from 0 to 1. Got 0:1.5"),
        (["--model-repository=x", "--model-load-gpu-limit=0"], "Bad option: \"--model-load-gpu-limit\".\n--model-load-gpu-limit option format is '<device id>:<fraction>', with a fraction from 0 to 1. Got 0"),
        (["--model-repository=x", "--model-load-gpu-limit=x:0.5"], "Bad option: \"--model-load-gpu-limit\".\n--model-load-gpu-limit option format is '<device id>:<fraction>', with a fraction from 0 to 1. Got x:0.5"),
        (["--model-repository=x", "--load-model=a"], "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well."),
        (["--model-repository=x", "--trace-config=level=foo"], 'Bad option: "--trace-config level".\ninvalid value for trace level option: foo'),
        (["--model-repository=x", "--host-policy=foo"], "Bad option: \"--host-policy\".\n--host-policy option format is '<policy name>,<setting>=<value>'. Got foo"),
        (["--model-repository=x", "--allow-sagemaker=true"], 'Bad option: "--allow-sagemaker".\n--allow-sagemaker=true asks for a frontend that Charonia does not have'),
        (["--model-repository=x", "--path-prefix=api"], 'Bad option: "--path-prefix".\n--path-prefix must be a path like /api/predict/name, of letters, digits and \'._~-\', and not in /v2. Got api'),
        (["models"], "Unexpected argument: models"),
    ],
)  # fmt: skip
def test_serve_refuses_what_it_does_not_understand(capsys, arguments, message):
    assert run(["serve", *arguments]) == 1

    assert capsys.readouterr().err.startswith(f"{message}\n")


def test_check_finds_no_fault_in_the_example(capsys):
    assert run(["check", str(EXAMPLES)]) == 0

    assert capsys.readouterr().out == "1 models checked, 0 with faults\n"


def test_check_names_file_and_field_of_each_fault(tmp_path, capsys):
    shutil.copytree(EXAMPLES / "digits", tmp_path / "digits")
    config = tmp_path / "digits/config.pbtxt"
    config.write_text(config.read_text().replace("max_batch_size: 64", "max_batch_size: -1"))
    (tmp_path / "syntax/1").mkdir(parents=True)
    (tmp_path / "syntax/config.pbtxt").write_text("max_batch: 4\n")

    assert run(["check", str(tmp_path)]) == 1

    digits, syntax, total = capsys.readouterr().out.splitlines()
    assert digits == f"{config}: max_batch_size: 'max_batch_size' must be non-negative value for digits"
    assert syntax.startswith(f"{tmp_path}/syntax/config.pbtxt: ")
    assert 'has no field named "max_batch"' in syntax
    assert total == "2 models checked, 2 with faults"


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0), (["--wrong"], 2), (["/does/not/exist"], 1)])
def test_check_exit_codes(arguments, code):
    assert run(["check", *arguments]) == code


def test_a_missing_repository_stops_the_start(tmp_path):
    result = charonia("serve", f"--model-repository={tmp_path}/nothing")

    assert result.returncode == 1
    assert last_message(result.stderr).startswith("error: creating server: ")
    assert "nothing" in last_message(result.stderr)


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "No such file or directory"), ("", "it holds no token: "), ("two words\n", "line 1 is no token: ")],
)
def test_a_token_file_that_cannot_be_used_stops_the_start(tmp_path, text, reason):
    path = tmp_path / "tokens"
    if text is not None:
        path.write_text(text)

    result = charonia("serve", f"--model-repository={EXAMPLES}", f"--access-token-file={path}")

    assert result.returncode == 1
    assert last_message(result.stderr).startswith(
        f"error: creating server: Invalid argument - cannot use --access-token-file '{path}': {reason}"
    )
    assert "loading" not in result.stderr


def test_tokens_are_asked_for_and_followed(tmp_path):
    """Over both ports, below a prefix, until the file says otherwise; probes and metrics need none."""
    path = tmp_path / "tokens"
    path.write_text("old\n")
    flags = [f"--access-token-file={path}", "--path-prefix=/api/predict/digits"]
    with ServerProcess(EXAMPLES, tmp_path / "log", *flags) as server:

        def admits(token: str, prefix: str = "") -> bool:
            headers = {"Authorization": f"Bearer {token}"}
            status, _ = server.request("GET", f"{prefix}/v2/models/digits", headers=headers)
            assert status in {200, 401}
            return status == 200

        def admits_grpc(token: str) -> bool:
            with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
                try:
                    client.get_model_metadata("digits", headers={"authorization": token})
                except InferenceServerException as error:
                    assert error.status() == "StatusCode.UNAUTHENTICATED"
                    return False
            return True

        assert admits("old")
        assert admits_grpc("old")
        assert admits("old", "/api/predict/digits")
        assert not admits("new")
        assert not admits_grpc("new")
        assert server.get("/api/predict/digits/v2/health/ready")[0] == 200
        with urllib.request.urlopen(f"http://{server.metrics}/metrics") as metrics:
            assert metrics.status == 200

        path.write_text("new\n")
        deadline = time.monotonic() + 20
        while not admits("new"):
            assert time.monotonic() < deadline
        assert not admits("old")
        assert admits_grpc("new")
        assert not admits_grpc("old")


def test_a_failing_model_stops_the_start(tmp_path):
    (tmp_path / "broken/1").mkdir(parents=True)
    (tmp_path / "broken/1/model.onnx").write_bytes(b"no model")

    result = charonia("serve", f"--model-repository={tmp_path}")

    assert result.returncode == 1
    assert "| broken | 1       | UNAVAILABLE: " in result.stderr
    assert last_message(result.stderr) == "error: creating server: Internal - failed to load all models"


def test_a_failing_model_may_be_tolerated(tmp_path):
    repository = tmp_path / "models"
    shutil.copytree(EXAMPLES, repository)
    (repository / "broken/1").mkdir(parents=True)
    (repository / "broken/1/model.onnx").write_bytes(b"no model")

    with ServerProcess(repository, tmp_path / "log", "--exit-on-error=false") as server:
        assert server.get("/v2/models/digits/ready")[0] == 200
        assert server.get("/v2/health/ready")[0] == 400
        index = server.request("POST", "/v2/repository/index")[1].decode()
        assert '{"name":"broken","version":"1","state":"UNAVAILABLE","reason":"' in index
        assert '{"name":"digits","version":"1","state":"READY"}' in index


def test_a_port_that_is_taken_stops_the_start():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = charonia(
            "serve", f"--model-repository={EXAMPLES}", "--http-address=127.0.0.1", f"--http-port={port}",
            "--allow-grpc=false", "--allow-metrics=false",
        )  # fmt: skip

    assert result.returncode == 1
    assert last_message(result.stderr) == (
        f"error: failed to start HTTP service: Unavailable - Socket '127.0.0.1:{port}' already in use "
    )


def test_two_listeners_on_one_port_are_refused():
    result = charonia(
        "serve", f"--model-repository={EXAMPLES}", "--http-port=28765", "--grpc-port=28765", "--allow-metrics=false"
    )

    assert result.returncode == 1
    assert last_message(result.stderr).endswith(" requests at the same address and port 0.0.0.0:28765")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_gracefully(tmp_path, number):
    with ServerProcess(EXAMPLES, tmp_path / "log") as server:
        code = server.stop(number)

    assert code == 0
    assert f"Signal ({number}) received." in server.log
    assert "Waiting for in-flight requests to complete." in server.log
    assert "successfully unloaded 'digits' version 1" in server.log


def test_flags_without_effect_are_named_in_the_log(tmp_path):
    """And deprecated ones, in Triton's words."""
    flags = ("--pinned-memory-pool-byte-size=1024", "--strict-model-config=false")
    with ServerProcess(EXAMPLES, tmp_path / "log", *flags) as server:
        pass

    assert (
        "Warning: '--strict-model-config' has been deprecated! Please use '--disable-auto-complete-config' instead."
    ) in server.log

    assert "--pinned-memory-pool-byte-size is accepted for compatibility and has no effect" in server.log
