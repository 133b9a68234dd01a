"""An operator that is newer than the definition of InferenceServices: it writes what the definition can hold."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from charonia_operator.cluster import ClusterError
from charonia_operator.naming import JSON
from charonia_operator.status.fitting import fitted

_log = logging.getLogger(__name__)
_REFUSED = 422
_AGAIN_SECONDS = 300.0
"""Between two looks whether the definition has been upgraded."""


class DefinedCluster(Protocol):
    """What is asked of the cluster. Raises ClusterError."""

    def status_schema(self) -> Mapping[str, Any]: ...


@dataclass(slots=True)
class Skew:
    """Of all services of a cluster. Until the API server refuses a status nothing is asked, and nothing left out."""

    cluster: DefinedCluster
    clock: Callable[[], float] = time.monotonic
    _schema: Mapping[str, Any] = field(default_factory=dict)
    _read_at: float = float("-inf")
    _left_out: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fitted(self, status: JSON) -> JSON:
        """What of a status the cluster's definition can hold. Raises ClusterError."""
        if not self._schema:
            return status
        with self._lock:
            if self.clock() - self._read_at >= _AGAIN_SECONDS:
                self._read()
            kept, left_out = fitted(status, self._schema)
            news = set(left_out) - self._left_out
            self._left_out |= news
        if news:
            _log.warning(
                "the definition of InferenceServices is older than the operator and cannot hold %s: upgrade it",
                ", ".join(sorted(news)),
            )
        return dict(kept)

    def explains(self, error: ClusterError) -> bool:
        """Whether the definition may be why a status was refused: then fit it, and try again. Raises ClusterError."""
        if error.status != _REFUSED or self._schema:
            return False
        with self._lock:
            self._read()
        return True

    def _read(self) -> None:
        self._schema, self._read_at = self.cluster.status_schema(), self.clock()
