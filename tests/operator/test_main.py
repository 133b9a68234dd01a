"""The command: what it makes of its flags, and how it runs kopf."""

import logging
import socket

import pytest

from charonia_operator import __main__ as module
from charonia_operator import __version__
from charonia_operator.settings import Settings


class Waiting:
    """Workers that only count how often the command waits for the definition."""

    def __init__(self):
        self.waits = 0

    def wait_for_definition(self):
        self.waits += 1


@pytest.fixture
def run(monkeypatch):
    """Runs the command with flags; what it gave to kopf, which does nothing."""
    given = {}
    monkeypatch.setattr(module, "_workers", lambda settings: given.update(settings=settings) or Waiting())
    monkeypatch.setattr(module, "registry", lambda workers: workers)
    monkeypatch.setattr(module.kopf, "run", lambda **arguments: given.update(arguments))
    monkeypatch.setattr(logging, "basicConfig", lambda **arguments: given.update(arguments))
    names = ("kopf", "aiohttp.access", "urllib3.connectionpool")
    levels = {name: logging.getLogger(name).level for name in names}

    def command(*flags):
        monkeypatch.setattr("sys.argv", ["charonia-operator", *flags])
        module.main()
        return given

    yield command
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_an_operator_of_a_whole_cluster(run):
    given = run()

    assert (given["clusterwide"], list(given["namespaces"]), given["standalone"]) == (True, [], True)
    assert given["registry"].waits == 1, "kopf looks for the definition only once"
    assert given["identity"] == "charonia-operator"
    assert given["level"] == "INFO"


def test_an_operator_of_namespaces(run):
    given = run("--namespace=a", "--namespace=b", "--log-level=DEBUG")

    assert (given["clusterwide"], list(given["namespaces"])) == (False, ["a", "b"])
    assert given["level"] == "DEBUG"


@pytest.mark.parametrize(("port", "endpoint"), [("8080", "http://0.0.0.0:8080/healthz"), ("0", None)])
def test_where_the_kubelet_asks(run, port, endpoint):
    assert run(f"--liveness-port={port}")["liveness_endpoint"] == endpoint


def test_what_others_log_of_every_object_and_request_is_left_out(run):
    run("--log-level=DEBUG")

    assert not logging.getLogger("kopf").isEnabledFor(logging.INFO)
    assert not logging.getLogger("aiohttp.access").isEnabledFor(logging.INFO)
    assert not logging.getLogger("urllib3.connectionpool").isEnabledFor(logging.WARNING)


def test_the_parts_belong_together(monkeypatch):
    """Of two clients the one that elects may always write, the other one only while this operator leads."""
    made = []

    def client(connections, may_write=lambda: True):
        made.append((connections, may_write))
        return object()

    monkeypatch.setattr(module, "Cluster", client)
    settings = Settings(runtime_image="a", runtime_gpu_image="b", workers=7, lease="n/l", model_poll_seconds=17)

    workers = module._workers(settings)

    try:
        (electing, always), (working, while_leading) = made
        assert (electing, working) == (1, 8), "one for each worker, and one for the looks"
        assert always()
        assert not while_leading()
        workers.leadership._until = float("inf")
        assert while_leading()
        assert workers.leadership.lease == "n/l"
        assert workers.leadership.identity.startswith(f"{socket.gethostname()}-")
        assert workers.leadership.identity != module._workers(settings).leadership.identity
        assert workers.reconciler.models.pause(("n", "a")) == 17
        assert workers.reconciler.store is workers.store is workers.survey.store
    finally:
        workers.leadership._until = float("-inf")
        workers.stop(0.0)


def test_what_is_not_said():
    settings = Settings.parse([])

    assert settings == Settings()
    assert (settings.namespaces, settings.image_pull_secrets, settings.tolerations) == ((), (), ())
    assert settings.resources is None
    assert (settings.image_pull_policy, settings.gpu_resource) == ("IfNotPresent", "nvidia.com/gpu")
    assert (settings.gpu_product_label, settings.run_as_user) == ("nvidia.com/gpu.product", 1000)
    assert (settings.workers, settings.resync_seconds, settings.model_poll_seconds) == (8, 300, 30)
    assert (settings.lease, settings.own_namespace, settings.liveness_port) == ("", "", 8080)
    assert settings.copying_image == settings.runtime_image == f"ghcr.io/charonia/runtime:{__version__}"
    assert settings.runtime_gpu_image == f"{settings.runtime_image}-gpu"


def test_what_is_said():
    flags = [
        "--workers=3", "--resync-seconds=1.5", "--model-poll-seconds=2.5", "--lease=n/l", "--liveness-port=1",
        "--run-as-user=0", "--sync-image=s", "--image-pull-secret=a", "--image-pull-secret=b",
    ]  # fmt: skip
    settings = Settings.parse(flags)

    assert (settings.workers, settings.resync_seconds, settings.model_poll_seconds) == (3, 1.5, 2.5)
    assert (settings.lease, settings.own_namespace, settings.liveness_port) == ("n/l", "n", 1)
    assert (settings.run_as_user, settings.copying_image) == (0, "s")
    assert settings.image_pull_secrets == ("a", "b")


@pytest.mark.parametrize("flag", ["--workers=x", "--log-level=LOUD", "--unknown"])
def test_flags_that_cannot_be_read(flag, capsys):
    with pytest.raises(SystemExit) as ended:
        Settings.parse([flag])

    assert ended.value.code == 2
    assert flag.partition("=")[0] in capsys.readouterr().err


def test_the_version(capsys):
    with pytest.raises(SystemExit) as ended:
        Settings.parse(["--version"])

    assert (ended.value.code, capsys.readouterr().out) == (0, f"charonia-operator {__version__}\n")
