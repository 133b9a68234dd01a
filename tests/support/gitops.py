"""What GitOps tools make of an InferenceService: the script for Argo CD that the chart ships, and the rules of kstatus."""

from pathlib import Path
from typing import Any

import lupa
import yaml

FOLDER = Path(__file__).resolve().parents[2] / "charts/charonia/gitops"


def health(resource: dict[str, Any]) -> tuple[str, str]:
    """What Argo CD shows: the health, and the message."""
    (script,) = yaml.safe_load((FOLDER / "argocd-cm.yaml").read_text())["data"].values()
    runtime = lupa.LuaRuntime(unpack_returned_tuples=True)
    found = runtime.eval(f"function(obj) {script} end")(runtime.table_from(resource, recursive=True))
    assert set(found) == {"status", "message"}
    return found["status"], found["message"]


def kstatus(resource: dict[str, Any]) -> str:
    """What Flux and `kubectl wait` of others compute, for kinds that they do not know."""
    status = resource.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or []}
    if status.get("observedGeneration") != resource["metadata"]["generation"]:
        return "InProgress"
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions.get("Ready") == "True" else "InProgress"
