"""
Who the operator is to the API server: its service account in a cluster, else whoever the kubeconfig names.

The service account's token is a file that the kubelet writes anew every hour. Both of the operator's clients take it
from here; neither needs the cluster's DNS.
"""

import os
from dataclasses import dataclass
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN, _AUTHORITIES = "token", "ca.crt"


@dataclass(frozen=True, slots=True)
class Account:
    """A service account as a pod finds it."""

    server: str
    authorities: str
    """Path of the certificates to trust."""


def service_account() -> Account | None:
    """The one of this pod; None outside a cluster."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if not host or not (ACCOUNT / _TOKEN).exists():
        return None
    server = f"https://{f'[{host}]' if ':' in host else host}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"
    return Account(server, str(ACCOUNT / _AUTHORITIES))


def token() -> str:
    """The service account's, as it is now."""
    return (ACCOUNT / _TOKEN).read_text().strip()
