"""`pb_utils.MetricFamily` and `Metric`: numbers of a model on the server's metrics endpoint, where they are kept."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from charonia_runtime.core.errors import InferenceError
from charonia_runtime.ipc.frames import FrameKind
from charonia_runtime.stub.arguments import member, text
from charonia_runtime.stub.context import context
from charonia_runtime.stub.exceptions import TritonModelException, refuse


class MetricKind(Enum):
    """What a family's numbers may do; the value is Triton's name for it."""

    COUNTER = "TRITONSERVER_METRIC_KIND_COUNTER"
    GAUGE = "TRITONSERVER_METRIC_KIND_GAUGE"
    HISTOGRAM = "TRITONSERVER_METRIC_KIND_HISTOGRAM"


_CHANGES = {
    "increment": {MetricKind.COUNTER, MetricKind.GAUGE},
    "set": {MetricKind.GAUGE},
    "observe": {MetricKind.HISTOGRAM},
    "value": {MetricKind.COUNTER, MetricKind.GAUGE},
}


class Metric:
    """One set of labels of a family. Lives on the server as long as some model's object for it does."""

    __slots__ = ("_family", "_id")

    def __init__(
        self, family: "MetricFamily", labels: Mapping[str, str] | None, buckets: Sequence[float] | None
    ) -> None:
        self._id: int | None = None
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        histogram = family.kind is MetricKind.HISTOGRAM
        if buckets is not None and not histogram:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        if buckets is None and histogram:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        if buckets is not None and not isinstance(buckets, list):
            raise TritonModelException("Failed to create metric. Buckets must be a list.")
        if not all(isinstance(part, str) for pair in (labels or {}).items() for part in pair):
            raise TritonModelException(
                f"Error when creating Metric: {_MESSAGE}attempt to access JSON non-string as string".format(
                    context.instance_name
                )
            )
        self._family = family
        self._id = _ask(
            "Error when creating Metric",
            "create_metric",
            {"family": family.id, "labels": labels or {}, "buckets": list(map(float, buckets or []))},
        )

    def increment(self, value: float) -> None:
        """Add to a counter (nothing negative) or a gauge."""
        self._check("increment", "Increment")
        if value < 0 and self._family.kind is MetricKind.COUNTER:
            raise TritonModelException(
                "Failed to increment metric value: "
                + _MESSAGE.format(context.instance_name)
                + "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values"
            )
        self._change("increment", value)

    def set(self, value: float) -> None:
        """Set a gauge."""
        self._check("set", "Set")
        self._change("set", value)

    def observe(self, value: float) -> None:
        """Count a value in a histogram."""
        self._check("observe", "Observe")
        self._change("observe", value)

    def value(self) -> float:
        """The number now, changes by other instances included."""
        self._check("get", "Value", "value")
        return float(_ask("Failed to get metric value", "metric_value", {"metric": self._id}))

    def _check(self, what: str, name: str, change: str = "") -> None:
        if self._family.kind not in _CHANGES[change or what]:
            raise TritonModelException(
                f"Failed to {what} metric value: {_MESSAGE.format(context.instance_name)}"
                f"{self._family.kind.value} does not support {name}"
            )

    def _change(self, change: str, value: float) -> None:
        context.session.send(
            FrameKind.NOTICE, {"notice": "metric", "metric": self._id, "change": change, "value": float(value)}
        )

    def __del__(self) -> None:
        if self._id is not None:
            context.session.send(FrameKind.NOTICE, {"notice": "forget_metric", "metric": self._id})


class MetricFamily:
    """Metrics of one name, description and kind."""

    COUNTER = MetricKind.COUNTER
    GAUGE = MetricKind.GAUGE
    HISTOGRAM = MetricKind.HISTOGRAM

    __slots__ = ("id", "kind")

    def __init__(self, name: Any, description: Any, kind: Any) -> None:
        self.id: int | None = None
        try:
            name, description, kind = text(name), text(description), member(kind, MetricKind)
        except TypeError:
            raise refuse(
                "c_python_backend_utils.MetricFamily(name: str, description: str, kind: "
                "c_python_backend_utils.MetricKind)",
                name=name, description=description, kind=kind,
            ) from None  # fmt: skip
        self.kind = kind
        self.id = _ask(
            "Error when creating MetricFamily",
            "create_metric_family",
            {"name": name, "description": description, "kind": kind.name},
        )

    def Metric(self, labels: Mapping[str, str] | None = None, buckets: Sequence[float] | None = None) -> Metric:  # noqa: N802
        """One of the family's metrics; the one of these labels where it exists already."""
        return Metric(self, labels, buckets)

    def __del__(self) -> None:
        if self.id is not None:
            context.session.send(FrameKind.NOTICE, {"notice": "forget_metric_family", "family": self.id})


_MESSAGE = "Failed to process the request for model '{}', message: "


def _ask(what: str, call: str, arguments: Mapping[str, Any]) -> Any:
    try:
        return context.session.call(call, arguments)
    except InferenceError as error:
        raise TritonModelException(f"{what}: {_MESSAGE.format(context.instance_name)}{error.message}") from None
