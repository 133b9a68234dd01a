"""kopf is the source of events and nothing else."""

import asyncio
import itertools

import kopf
import pytest

from charonia_operator import handlers
from charonia_operator.handlers import Forever, configure, registry, watch_over_watchers
from charonia_operator.naming import OURS, POD
from charonia_operator.resources import kinds


class Told:
    def __init__(self):
        self.seen_bodies = []

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


def test_children_are_selected_by_the_server():
    settings = kopf.OperatorSettings()
    configure(settings)

    assert len(settings.watching.label_selectors) == len(kinds()) + 1
    assert set(settings.watching.label_selectors.values()) == {OURS}
    assert not settings.posting.enabled


async def test_events_are_told_as_they_are():
    told = Told()
    tell = handlers._told(told, POD)

    await tell(event={"type": "DELETED", "object": {"metadata": {"name": "a"}}})

    assert told.seen_bodies == [("Pod", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, True)]


class EndedError(Exception):
    pass


def ending(code):
    raise EndedError(code)


@pytest.mark.parametrize(
    "dead", ["watcher for pods.v1@None", "watcher for inferenceservices.v1alpha1.serving.charonia.dev@None"]
)
async def test_a_dead_watch_ends_the_process(monkeypatch, dead):
    """Its task has the name that kopf gives it: when that changes, this fails on the real API server, too."""
    monkeypatch.setattr(handlers, "_FIRST_WATCHES_SECONDS", 0.01)
    monkeypatch.setattr(handlers, "_WATCHDOG_SECONDS", 0.01)
    monkeypatch.setattr(handlers.os, "_exit", ending)
    names = ["watcher for pods.v1@None", "watcher for inferenceservices.v1alpha1.serving.charonia.dev@None"]
    watches = {name: asyncio.create_task(asyncio.sleep(60), name=name) for name in names}
    watchdog = asyncio.create_task(watch_over_watchers())
    await asyncio.sleep(0.1)
    assert not watchdog.done()

    watches[dead].cancel()

    with pytest.raises(EndedError):
        await asyncio.wait_for(watchdog, 5)
    for watch in watches.values():
        watch.cancel()
