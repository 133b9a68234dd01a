"""`charonia-operator`: wires the parts together and runs kopf until it is told to stop."""

import logging
import secrets
import socket
import sys
from typing import Any, cast

import kopf

from charonia_operator.cluster import Cluster
from charonia_operator.handlers import registry
from charonia_operator.leadership import Leadership
from charonia_operator.models import ModelWatch
from charonia_operator.naming import FIELD_MANAGER
from charonia_operator.queue import WorkQueue
from charonia_operator.reconcile import Reconciler
from charonia_operator.settings import Settings
from charonia_operator.skew import Skew
from charonia_operator.store import Store
from charonia_operator.survey import Survey
from charonia_operator.workers import Workers


def main() -> None:
    """Run the operator. Exits with 0 when it was told to stop."""
    settings = Settings.parse(sys.argv[1:])
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("kopf").setLevel(logging.WARNING)  # it tells of every event, and below INFO of whole objects
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # the kubelet's questions, every few seconds
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # what fails is told by whoever asked
    liveness = f"http://0.0.0.0:{settings.liveness_port}/healthz" if settings.liveness_port else None
    workers = _workers(settings)
    workers.wait_for_definition()
    kopf.run(
        registry=registry(workers),
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        liveness_endpoint=liveness,
        identity=cast("Any", FIELD_MANAGER),  # kopf's own takes the user's name, and users of containers may have none
    )


def _workers(settings: Settings) -> Workers:
    identity = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    leadership = Leadership(Cluster(connections=1), identity, settings.lease)
    cluster = Cluster(connections=settings.workers + 1, may_write=lambda: leadership.held)
    store, queue = Store(), WorkQueue()
    models = ModelWatch(queue.add, every_seconds=settings.model_poll_seconds)
    reconciler = Reconciler(cluster, store, settings, models, Skew(cluster))
    return Workers(Survey(cluster, store, settings), store, queue, reconciler, settings, leadership)


if __name__ == "__main__":
    main()
