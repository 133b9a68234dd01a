"""What a service manager is told."""

import os
import socket

import pytest

from charonia_runtime.service_manager import READY, STOPPING, ServiceManager


@pytest.fixture(params=["path", "abstract"])
def notices(request, tmp_path, monkeypatch):
    name = f"\0charonia-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name)
        listening.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name.replace("\0", "@"))
        yield listening


def test_states_reach_it_and_the_variable_no_model(notices):
    manager = ServiceManager()
    manager.tell(READY)
    manager.tell(STOPPING)
    assert [notices.recv(100), notices.recv(100)] == [b"READY=1", b"STOPPING=1"]
    assert "NOTIFY_SOCKET" not in os.environ


def test_nothing_happens_without_one(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    ServiceManager().tell(READY)


def test_one_that_does_not_listen_is_only_a_warning(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    ServiceManager().tell(READY)
    assert "cannot tell the service manager" in caplog.text
