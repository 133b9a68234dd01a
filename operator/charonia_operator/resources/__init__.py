"""
The objects that are made for a service, one module for each kind.

A module has `RESOURCE`, the kind, and `build(service, settings, template) -> list`: what of that kind must exist; what
is not listed is pruned. Watching, applying, pruning and owner references are generic, so a new kind is one new file
here and one line in the chart's ClusterRole. Modules do not import each other.
"""

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType

from charonia_operator.naming import JSON, ResourceKind
from charonia_operator.settings import Settings
from charonia_operator.spec.service import InferenceServiceSpec


def children(service: InferenceServiceSpec, settings: Settings, template: JSON) -> list[JSON]:
    """Everything that must exist for a service whose pods are made from `template`."""
    return [child for module in _modules() for child in module.build(service, settings, template)]


@cache
def kinds() -> Sequence[ResourceKind]:
    """The kinds of children, in the order in which they are applied."""
    return tuple(dict.fromkeys(module.RESOURCE for module in _modules()))


@cache
def _modules() -> Sequence[ModuleType]:
    """By name, which also puts a frozen template before the Deployment that uses it."""
    return tuple(import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
