"""What a pass over a service has to go by beside the spec: a snapshot, taken once, read by pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from charonia_operator.diagnosis import Failure
from charonia_operator.naming import JSON


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that kept the operator from making what is wanted."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ModelState:
    """A version of a model, as one server tells it."""

    name: str
    version: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CopyState:
    """What the container that follows the bucket says of the pod's copy."""

    cause: str
    """`Synced`, or why the last look at the bucket failed."""
    message: str
    revision: str
    objects: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PodModels:
    """What a pod answered when it was asked for its models; `error` where it did not."""

    models: tuple[ModelState, ...] = ()
    error: str = ""
    refused: bool = False
    """The server wants a token, which the operator has not."""
    copy: CopyState | None = None
    """Of pods that follow their bucket."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A service's children and pods, and what was found out about them."""

    deployment: JSON | None = None
    routes: Sequence[JSON] = ()
    pods: Sequence[JSON] = ()
    failures: Sequence[Failure] = ()
    models: Mapping[str, PodModels] = field(default_factory=dict)
    """By the pod's name."""
    problems: Sequence[Problem] = ()
