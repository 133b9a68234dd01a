"""The adapter that carries the requests of those schemes whose library is built on `requests`."""

from typing import Any

import requests
import requests.adapters
from typing_extensions import override

from charonia_runtime.storage.access import Access


class StoreAdapter(requests.adapters.HTTPAdapter):
    """
    Keeps as many connections as there are threads, and trusts the authorities that the access names.

    `requests` would prefer the authorities of the environment to those of a session.
    """

    def __init__(self, access: Access) -> None:
        super().__init__(pool_connections=1, pool_maxsize=access.connections)
        self._ca_bundle = access.ca_bundle

    @override
    def send(self, *arguments: Any, **options: Any) -> Any:
        if self._ca_bundle:
            options["verify"] = self._ca_bundle
        return super().send(*arguments, **options)


def mount(session: requests.Session, access: Access) -> requests.Session:
    """Let every request of the session go through an adapter of the access. Returns the session."""
    for scheme in ("https://", "http://"):
        session.mount(scheme, StoreAdapter(access))
    return session
