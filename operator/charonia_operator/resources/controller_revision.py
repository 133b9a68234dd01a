"""
The frozen pod template of what a service asks for now.

Written once for each fingerprint of the spec, with the settings of that day; an operator with other settings or code
goes on using it, so that its upgrade restarts no pod whose InferenceService did not change.
"""

from collections.abc import Mapping
from typing import Any

from charonia_operator.naming import JSON, ResourceKind, child, revision_name
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec

RESOURCE = ResourceKind("apps/v1", "ControllerRevision", "controllerrevisions")


def build(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:  # noqa: ARG001
    """The revision of the current spec; those before it are pruned."""
    revision = child(RESOURCE, service)
    revision["metadata"]["name"] = revision_name(service)
    return [revision | {"revision": 1, "data": {"template": template}}]


def frozen_template(revision: Mapping[str, Any]) -> JSON:
    """The template that a revision holds."""
    template: JSON = revision["data"]["template"]
    return template
