"""To which InferenceService an object belongs, and when a service may take one over."""

from collections.abc import Mapping
from typing import Any

from charonia_operator.naming import INFERENCE_SERVICE, MANAGED_BY, key_of
from charonia_operator.spec.service import ADOPT_ORPHANS, InferenceServiceSpec


def may_take(live: Mapping[str, Any], service: InferenceServiceSpec) -> bool:
    """
    Whether an object is the service's, or may become so.

    That holds for the children of an InferenceService of the same name, which a restored backup has brought back, and,
    where the service's annotation asks for it, for what an earlier one has left behind.
    """
    references = live["metadata"].get("ownerReferences") or []
    controllers = [each for each in references if each.get("controller")]
    if not controllers:
        return service.adopts_orphans and is_orphan(live, service)
    return any(
        each["uid"] == service.uid or (each["kind"] == INFERENCE_SERVICE.kind and each["name"] == service.name)
        for each in controllers
    )


def is_orphan(live: Mapping[str, Any], service: InferenceServiceSpec) -> bool:
    """Whether the operator made an object for a service of this name, and none owns it now."""
    metadata = live["metadata"]
    ours = MANAGED_BY.items() <= (metadata.get("labels") or {}).items()
    owned = any(each.get("controller") for each in metadata.get("ownerReferences") or [])
    return ours and not owned and key_of(live) == (service.namespace, service.name)


def name_conflict(live: Mapping[str, Any], kind: str, service: InferenceServiceSpec) -> str:
    """What to tell of an object that the service needs and may not take."""
    text = f"{kind} {live['metadata']['name']} exists and is not this service's."
    if is_orphan(live, service):
        return (
            f"{text} It was left behind by a service of this name: annotate this one with {ADOPT_ORPHANS}=true to take"
            " it over, or delete it."
        )
    return f"{text} Delete or rename it, or give the service another name."
