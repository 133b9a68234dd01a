"""What a pass over a service has to go by beside the spec: a snapshot, taken once, read by pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from charonia_operator.diagnosis import Failure, is_ready
from charonia_operator.naming import JSON


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that kept the operator from making what is wanted."""

    reason: str
    message: str
    kind: str = ""
    """Of the object that it is about."""


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
class CopyProgress:
    """How far a pod is that copies the models before its server starts."""

    phase: str
    bytes: int = 0
    """Of the whole repository; 0 until it is known."""
    bytes_done: int = 0
    cause: str = ""
    """Why the store was asked again, empty while it answers."""
    message: str = ""
    seconds: float = 0.0
    """How long the store has not answered."""


@dataclass(frozen=True, slots=True)
class PodModels:
    """What a pod answered when it was asked for its models; `error` where it did not."""

    models: tuple[ModelState, ...] = ()
    error: str = ""
    refused: bool = False
    """The server wants a token, which the operator has not."""
    copy: CopyState | None = None
    """Of pods that follow their bucket."""
    progress: CopyProgress | None = None
    """Of pods whose server has not started; they have told nothing of models."""


@dataclass(frozen=True, slots=True)
class RevisionPods:
    """The pods of one pod template, and what ails them."""

    pods: Sequence[JSON] = ()
    failures: Sequence[Failure] = ()

    @property
    def ready(self) -> int:
        """How many of the pods serve."""
        return sum(is_ready(pod) for pod in self.pods)


@dataclass(frozen=True, slots=True)
class Observation:
    """A service's children and pods, and what was found out about them."""

    deployment: JSON | None = None
    service: JSON | None = None
    autoscaler: JSON | None = None
    routes: Sequence[JSON] = ()
    current: RevisionPods = field(default_factory=RevisionPods)
    """Pods of what the service asks for now."""
    old: RevisionPods = field(default_factory=RevisionPods)
    """Pods of what it asked for before; they serve until the current ones do."""
    models: Mapping[str, PodModels] = field(default_factory=dict)
    """By the pod's name."""
    problems: Sequence[Problem] = ()

    @property
    def pods(self) -> Sequence[JSON]:
        """All pods, those of the current revision first."""
        return [*self.current.pods, *self.old.pods]

    @property
    def failures(self) -> Sequence[Failure]:
        """What ails any pod, those of the current revision first."""
        return [*self.current.failures, *self.old.failures]
