"""
kopf, as the source of events and nothing else: every handler only tells the workers what a watch has seen.

No change handlers, timers, daemons or indices: those write annotations and finalizers, and remember what is gone.
"""

import asyncio
import itertools
import logging
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import kopf

from charonia_operator.identity import service_account, token
from charonia_operator.naming import GROUP, INFERENCE_SERVICE, MANAGED_BY, OURS, POD, VERSION, ResourceKind
from charonia_operator.resources import kinds
from charonia_operator.workers import Workers

_log = logging.getLogger(__name__)
_FIRST_WATCHES_SECONDS = 120.0
_WATCHDOG_SECONDS = 5.0
_LONGEST_LAG_SECONDS = 30.0
_STOP_SECONDS = 8.0
_CHUNK = 50
_IDLE_TASK_SECONDS = 0.1
"""kopf has a task for each object that it has seen lately, and the object's last body with it."""


class Forever:
    """Pauses between tries, without end: where they end, a watch gives up for good when the API server is away long."""

    def __iter__(self) -> Iterator[float]:
        """Begin anew, for each request."""
        return itertools.chain((0.5, 1.0, 2.0, 5.0), itertools.repeat(10.0))


def registry(workers: Workers) -> kopf.OperatorRegistry:
    """The handlers of an operator."""
    handlers = kopf.OperatorRegistry()
    _handle_life(handlers, workers)
    kopf.on.event(GROUP, VERSION, INFERENCE_SERVICE.plural, registry=handlers)(_told(workers, INFERENCE_SERVICE))
    for kind in (*kinds(), POD):
        version = kind.api_version.rpartition("/")[2]
        kopf.on.event(kind.group, version, kind.plural, labels=MANAGED_BY, registry=handlers)(_told(workers, kind))
    return handlers


def _told(workers: Workers, kind: ResourceKind) -> Callable[..., Any]:
    async def tell(event: kopf.RawEvent, **_: Any) -> None:
        if event["type"] is None:
            workers.listed()
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **event["object"]}
        workers.seen(kind, body, deleted=event["type"] == "DELETED")

    tell.__name__ = f"tell_of_{kind.plural}"
    return tell


def _handle_life(handlers: kopf.OperatorRegistry, workers: Workers) -> None:
    tasks: set[asyncio.Task[None]] = set()

    @kopf.on.login(registry=handlers)
    async def login(**arguments: Any) -> Any:
        account = service_account()
        if account is None:
            return kopf.login_with_kubeconfig(**arguments)
        return kopf.ConnectionInfo(server=account.server, ca_path=account.authorities, token=token())

    @kopf.on.startup(registry=handlers)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        workers.start()
        tasks.add(asyncio.create_task(watch_over(workers), name="watchdog"))

    @kopf.on.cleanup(registry=handlers)
    async def stop(**_: Any) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.to_thread(workers.stop, _STOP_SECONDS)


def configure(settings: kopf.OperatorSettings) -> None:
    """Make kopf persistent where it gives up by default, and silent where it writes by default."""
    settings.networking.error_backoffs = Forever()
    settings.networking.request_timeout = 30
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = 240
    settings.watching.client_timeout = 300
    settings.watching.reconnect_backoff = 1
    settings.watching.chunk_size = _CHUNK
    settings.queueing.idle_timeout = _IDLE_TASK_SECONDS
    settings.posting.enabled = False
    settings.scanning.disabled = True  # it wants to list namespaces and definitions
    settings.peering.standalone = True
    for kind in (*kinds(), POD):
        version = kind.api_version.rpartition("/")[2]
        settings.watching.label_selectors[kind.group, version, kind.plural] = OURS


async def watch_over(workers: Workers) -> None:
    """
    End the process when one of kopf's watches or a worker has ended, or the loop hangs: the kubelet starts it again.

    kopf does not start a watch again that met an error which it does not know; not every version of it ends then. Nor
    does it begin to watch a kind that the cluster gets later: then the process ends in an orderly way.
    """
    loop, expected = asyncio.get_running_loop(), set[str]()
    begun = loop.time()
    while True:
        before = loop.time()
        alive = {name for task in asyncio.all_tasks() if (name := task.get_name()).startswith("watcher for")}
        expected |= alive
        await asyncio.sleep(_WATCHDOG_SECONDS)
        if workers.unwatched:
            _log.warning("ending, to begin again with watches for %s", workers.unwatched)
            signal.raise_signal(signal.SIGTERM)
            return
        lag = loop.time() - before - _WATCHDOG_SECONDS
        watches = any(name.startswith(f"watcher for {INFERENCE_SERVICE.plural}.") for name in expected)
        blind = not watches and loop.time() - begun > _FIRST_WATCHES_SECONDS
        ended = ", ".join(filter(None, (*sorted(expected - alive), workers.ailing)))
        if blind or ended or lag > _LONGEST_LAG_SECONDS:
            _log.critical("ending: what ended by itself: %s; the loop was late by %.0f s", ended or "nothing", lag)
            os._exit(1)
