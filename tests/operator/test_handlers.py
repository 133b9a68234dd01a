"""kopf is the source of events and nothing else."""

import ast
import asyncio
import itertools
import time
from pathlib import Path

import kopf
import pytest

from charonia_operator import handlers
from charonia_operator.handlers import Forever, configure, registry, watch_over
from charonia_operator.identity import Account
from charonia_operator.naming import OURS, POD
from charonia_operator.resources import kinds


class Told:
    def __init__(self):
        self.seen_bodies = []
        self.lists = 0
        self.ailing = ""
        self.unwatched = ""
        self.calls = []

    def start(self):
        self.calls.append("start")

    def stop(self, seconds):
        self.calls.append(seconds)

    def listed(self):
        self.lists += 1

    def seen(self, kind, body, *, deleted):
        self.seen_bodies.append((kind.kind, body, deleted))


def test_no_handler_that_writes():
    """Change handlers, timers, daemons, indices and admission handlers mark objects or lose them."""
    built = registry(Told())

    assert len(built._watching.get_all_handlers()) == len(kinds()) + 2
    for part in (built._changing, built._spawning, built._indexing, built._webhooks):
        assert list(part.get_all_handlers()) == []


def test_pauses_never_end():
    """And begin anew for each request."""
    pauses = Forever()

    assert len(list(itertools.islice(pauses, 1000))) == 1000
    assert next(iter(pauses)) == next(iter(pauses)) == 0.5


def test_kopf_gives_up_nowhere_and_waits_for_nothing_endlessly():
    """Its defaults: watches that fail for a minute or fall silent are dead for ever, and nobody hears of it."""
    settings = kopf.OperatorSettings()
    configure(settings)

    assert len(list(itertools.islice(settings.networking.error_backoffs, 1000))) == 1000
    assert settings.networking.request_timeout == 30
    assert settings.watching.connect_timeout == 10
    assert settings.watching.server_timeout == 240
    assert settings.watching.client_timeout == 300
    assert settings.watching.reconnect_backoff == 1


def test_kopf_keeps_to_itself():
    """It elects nobody, makes no Events, asks for no rights of its own, and keeps no object that it has told of."""
    settings = kopf.OperatorSettings()
    configure(settings)

    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert settings.queueing.idle_timeout < 1
    assert settings.watching.chunk_size <= 100


def test_children_are_selected_by_the_server():
    settings = kopf.OperatorSettings()
    configure(settings)

    assert len(settings.watching.label_selectors) == len(kinds()) + 1
    assert set(settings.watching.label_selectors.values()) == {OURS}


async def test_events_are_told_as_they_are():
    told = Told()
    tell = handlers._told(told, POD)

    await tell(event={"type": "DELETED", "object": {"metadata": {"name": "a"}}})

    assert told.seen_bodies == [("Pod", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, True)]
    assert told.lists == 0


async def test_a_watch_that_begins_anew_is_told():
    told = Told()
    tell = handlers._told(told, POD)

    await tell(event={"type": None, "object": {"metadata": {"name": "a"}}})

    assert told.lists == 1
    assert len(told.seen_bodies) == 1


class EndedError(Exception):
    pass


def ending(code):
    raise EndedError(code)


WATCHES = ["watcher for pods.v1@None", "watcher for inferenceservices.v1alpha1.serving.charonia.dev@None"]


@pytest.mark.parametrize("dead", [*WATCHES, "a worker"])
async def test_what_ends_by_itself_ends_the_process(monkeypatch, dead):
    """A watch's task has the name that kopf gives it: when that changes, this fails on the real API server, too."""
    monkeypatch.setattr(handlers, "_WATCHDOG_SECONDS", 0.01)
    monkeypatch.setattr(handlers.os, "_exit", ending)
    told = Told()
    watches = {name: asyncio.create_task(asyncio.sleep(60), name=name) for name in WATCHES}
    watchdog = asyncio.create_task(watch_over(told))
    await asyncio.sleep(0.1)
    assert not watchdog.done()

    if dead in watches:
        watches[dead].cancel()
    else:
        told.ailing = dead

    with pytest.raises(EndedError):
        await asyncio.wait_for(watchdog, 5)
    for watch in watches.values():
        watch.cancel()


async def test_a_kind_that_comes_later_ends_the_process_in_an_orderly_way(monkeypatch):
    """Gateway API may be installed after the operator; kopf looks for kinds only when it begins."""
    monkeypatch.setattr(handlers, "_WATCHDOG_SECONDS", 0.01)
    raised = []
    monkeypatch.setattr(handlers.signal, "raise_signal", raised.append)
    told = Told()
    watchdog = asyncio.create_task(watch_over(told))
    await asyncio.sleep(0.1)
    assert not watchdog.done()

    told.unwatched = "httproutes"

    await asyncio.wait_for(watchdog, 5)
    assert raised == [handlers.signal.SIGTERM]


async def test_a_process_without_watches_ends(monkeypatch):
    monkeypatch.setattr(handlers, "_FIRST_WATCHES_SECONDS", 0.05)
    monkeypatch.setattr(handlers, "_WATCHDOG_SECONDS", 0.01)
    monkeypatch.setattr(handlers.os, "_exit", ending)

    with pytest.raises(EndedError):
        await asyncio.wait_for(watch_over(Told()), 5)


@pytest.mark.parametrize(("late", "seconds"), [(False, 30.0), (True, 0.1)])
async def test_a_loop_that_hangs_ends_the_process(monkeypatch, late, seconds):
    monkeypatch.setattr(handlers, "_WATCHDOG_SECONDS", 0.01)
    monkeypatch.setattr(handlers, "_LONGEST_LAG_SECONDS", seconds)
    monkeypatch.setattr(handlers.os, "_exit", ending)
    watchdog = asyncio.create_task(watch_over(Told()))
    await asyncio.sleep(0)

    time.sleep(0.5)  # noqa: ASYNC251 - as a call that blocks would
    await asyncio.sleep(0.02)
    await asyncio.wait([watchdog], timeout=0.05)

    assert watchdog.done() is late
    watchdog.cancel()
    with pytest.raises(EndedError if late else asyncio.CancelledError):
        await watchdog


async def test_from_start_to_stop():
    """The workers begin when kopf does, and have some seconds for their end."""
    told, settings = Told(), kopf.OperatorSettings()
    built = {handler.fn.__name__: handler.fn for handler in registry(told)._activities.get_all_handlers()}

    await built["start"](settings=settings)
    assert told.calls == ["start"]
    assert settings.peering.standalone
    assert [task for task in asyncio.all_tasks() if task.get_name() == "watchdog"]
    await built["stop"]()
    await asyncio.sleep(0)

    assert told.calls == ["start", 8.0]
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "watchdog"]


async def test_who_the_operator_is(monkeypatch):
    """In a cluster its service account with the token of now; elsewhere whoever the kubeconfig names."""
    built = {handler.fn.__name__: handler.fn for handler in registry(Told())._activities.get_all_handlers()}
    monkeypatch.setattr(handlers.kopf, "login_with_kubeconfig", lambda **arguments: arguments)
    monkeypatch.setattr(handlers, "token", lambda: "t")
    monkeypatch.setattr(handlers, "service_account", lambda: Account("https://a", "/ca.crt"))

    assert await built["login"]() == kopf.ConnectionInfo(server="https://a", ca_path="/ca.crt", token="t")
    monkeypatch.setattr(handlers, "service_account", lambda: None)
    assert await built["login"](logger=1) == {"logger": 1}


def test_nothing_that_blocks_runs_on_the_loop():
    """Every handler is a coroutine, and no coroutine does more than to tell: requests are the workers' business."""
    blocking = {"sleep", "open", "request", "urlopen", "list", "get", "apply", "run"}
    for path in sorted(Path(handlers.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)):
            awaited = {id(node.value) for node in ast.walk(function) if isinstance(node, ast.Await)}
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and id(node) not in awaited]
            names = {getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls}
            assert not names & blocking, f"{path.name}: {function.name}"
    for part in (registry(Told())._watching, registry(Told())._activities):
        assert all(asyncio.iscoroutinefunction(handler.fn) for handler in part.get_all_handlers())
