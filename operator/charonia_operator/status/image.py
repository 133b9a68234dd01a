"""`images`: the image that serves, and the one that a new service would get."""

from collections.abc import Mapping
from typing import Any

from charonia_operator.naming import JSON
from charonia_operator.pod.server import SERVER


def images(template: Mapping[str, Any], current: Mapping[str, Any]) -> JSON:
    """For pods made of `template`; `current` is the template that the operator would make now."""
    runs, would_run = _image_of(template), _image_of(current)
    if not runs:
        return {}
    return {"image": runs} | ({"newerImage": would_run} if would_run != runs else {})


def _image_of(template: Mapping[str, Any]) -> str:
    """Empty where `spec.podTemplate` has made something of the containers that the API server will refuse."""
    containers = template.get("spec", {}).get("containers")
    named = [each for each in containers if isinstance(each, Mapping)] if isinstance(containers, list) else []
    return next((str(each.get("image", ""))[:512] for each in named if each.get("name") == SERVER), "")
