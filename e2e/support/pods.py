"""Pods of the tests' own."""

from collections.abc import Mapping, Sequence
from typing import Any


def restricted_pod(
    name: str, image: str, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A pod that a namespace of the restricted profile takes; /tmp is its own."""
    container = {
        "name": name,
        "image": image,
        "command": list(command),
        "env": [{"name": key, "value": value} for key, value in (environment or {}).items()],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }  # fmt: skip
