"""`spec.autoscaling` and `spec.disruption`: how many pods, and how many may be missing."""

from dataclasses import dataclass
from typing import Annotated, Literal

from charonia_operator.spec.quantity import Quantity, Share
from charonia_operator.spec.reading import JSON, Bounds


@dataclass(frozen=True, slots=True)
class Metric:
    """What to scale on. CPU, Memory and GPUUtilization in percent; Custom is a metric of the pods, per replica."""

    type: Literal["CPU", "Memory", "GPUUtilization", "Custom"]
    target: Quantity
    name: str = ""

    def __post_init__(self) -> None:
        if (self.type == "Custom") != bool(self.name):
            raise ValueError("name is for type Custom only, and needed there")


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """A HorizontalPodAutoscaler on the InferenceService's own scale subresource."""

    max_replicas: Annotated[int, Bounds(1, 1000)]
    min_replicas: Annotated[int, Bounds(1, 1000)] = 1
    metrics: tuple[Metric, ...] = ()
    behavior: JSON | None = None

    def __post_init__(self) -> None:
        if self.min_replicas > self.max_replicas:
            raise ValueError("minReplicas must not exceed maxReplicas")
        if not self.metrics:
            raise ValueError("give metrics")


@dataclass(frozen=True, slots=True)
class Disruption:
    """How many pods a drain of nodes may take at once. Auto: one, when more than one is wanted."""

    mode: Literal["Auto", "Disabled"] = "Auto"
    min_available: Share | None = None
    max_unavailable: Share | None = None

    def __post_init__(self) -> None:
        if self.min_available is not None and self.max_unavailable is not None:
            raise ValueError("minAvailable and maxUnavailable exclude each other")
