"""Metrics that models define, and their log lines."""

import logging
from pathlib import Path

import numpy as np
import pytest

from charonia_runtime.core.custom_metrics import MetricKind
from tests.support.python_models import ECHO, PythonModel

PREFIX = "Failed to process the request for model 'echo_0', message: "


async def test_values_are_kept_by_the_server(tmp_path: Path) -> None:
    body = """
    def initialize(self, args):
        F = pb_utils.MetricFamily
        self.families = [F(name=f"f_{kind}", description=f"about {kind}", kind=getattr(F, kind))
                         for kind in ("COUNTER", "GAUGE", "HISTOGRAM")]
        counter, gauge, histogram = self.families
        self.counter = counter.Metric(labels={"model": "echo"})
        self.again = counter.Metric(labels={"model": "echo"})
        self.gauge = gauge.Metric()
        self.histogram = histogram.Metric(labels={"a": "b"}, buckets=[1.0, 10.0])

    def execute(self, requests):
        self.counter.increment(2)
        self.again.increment(0.5)
        self.gauge.set(7)
        self.gauge.increment(-3)
        for value in (0.5, 1, 5, 50):
            self.histogram.observe(value)
        value = np.float32([self.counter.value(), self.gauge.value()])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)])]
"""
    async with PythonModel(tmp_path, body) as model:
        counter, _, histogram = model.metrics.families()
        assert (counter.name, counter.description, counter.kind) == ("f_COUNTER", "about COUNTER", MetricKind.COUNTER)
        assert [metric.value for metric in counter.metrics.values()] == [0]
        batch = await model.run(np.zeros(1, np.float32))
        assert batch.arrays_of(0)["OUT"].tolist() == [2.5, 4]
        (metric,) = histogram.metrics.values()
        assert (metric.labels, metric.histogram.bounds) == ({"a": "b"}, (1.0, 10.0))
        assert (metric.histogram.counts, metric.histogram.sum) == ([2, 1, 1], 56.5)
    assert list(model.metrics.families()) == []


async def test_metrics_go_with_their_objects(tmp_path: Path) -> None:
    body = """
    def initialize(self, args):
        self.family = pb_utils.MetricFamily(name="f", description="", kind=pb_utils.MetricFamily.GAUGE)
        self.metric = self.family.Metric()

    def execute(self, requests):
        del self.metric, self.family
        return [pb_utils.InferenceResponse([r.inputs()[0]]) for r in requests]
"""
    async with PythonModel(tmp_path, body) as model:
        assert len(list(model.metrics.families())) == 1
        await model.run(np.zeros(1, np.float32))
        assert list(model.metrics.families()) == []


async def test_metrics_of_a_dead_child_go_with_it(tmp_path: Path) -> None:
    body = """
    def initialize(self, args):
        self.family = pb_utils.MetricFamily(name="f", description="", kind=pb_utils.MetricFamily.GAUGE)

    def execute(self, requests):
        os._exit(1)
"""
    async with PythonModel(tmp_path, body) as model:
        (first,) = model.metrics.families()
        await model.error()
        (second,) = model.metrics.families()
        assert first is not second


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("C.Metric().set(1)", f"Failed to set metric value: {PREFIX}TRITONSERVER_METRIC_KIND_COUNTER does not support Set"),
        (
            "C.Metric().observe(1)",
            f"Failed to observe metric value: {PREFIX}TRITONSERVER_METRIC_KIND_COUNTER does not support Observe",
        ),
        (
            "H.Metric(buckets=[]).value()",
            f"Failed to get metric value: {PREFIX}TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value",
        ),
        (
            "H.Metric(buckets=[]).increment(1)",
            f"Failed to increment metric value: {PREFIX}TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment",
        ),
        ("C.Metric().increment(-1)", "can only be incremented monotonically by non-negative values"),
        ("C.Metric(labels=5)", "Failed to create metric. Labels must be a dictionary."),
        ("C.Metric(buckets=[])", "Failed to create metric. Unexpected buckets found."),
        ("H.Metric()", "Failed to create metric. Missing required buckets."),
        ("H.Metric(buckets=5)", "Failed to create metric. Buckets must be a list."),
        ("H.Metric(buckets=[2, 1])", f"Error when creating Metric: {PREFIX}Bucket Boundaries must be strictly sorted"),
        ("C.Metric(labels={'a': 1})", f"Error when creating Metric: {PREFIX}attempt to access JSON non-string as string"),
        ("F('c', '', F.GAUGE)", f"Error when creating MetricFamily: {PREFIX}Family name already exists with different type"),
        ("F('1 x', '', F.GAUGE)", f"Error when creating MetricFamily: {PREFIX}Invalid metric name"),
    ],
)  # fmt: skip
async def test_what_triton_refuses_is_refused(tmp_path: Path, statement: str, text: str) -> None:
    body = f"""
    def execute(self, requests):
        F = pb_utils.MetricFamily
        C = F("c", "", F.COUNTER)
        H = F("h", "", F.HISTOGRAM)
        {statement}
"""
    async with PythonModel(tmp_path, body) as model:
        assert text in await model.error()


async def test_metrics_work_while_no_event_loop_runs(tmp_path: Path) -> None:
    body = (
        ECHO
        + """
    def initialize(self, args):
        self.family = pb_utils.MetricFamily(name="f", description="", kind=pb_utils.MetricFamily.GAUGE)
        self.metric = self.family.Metric()
        self.metric.set(5)
        assert self.metric.value() == 5
"""
    )
    async with PythonModel(tmp_path, body, reachable=False) as model:
        assert await model.echoes()


async def test_log_lines_carry_the_caller_s_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    body = """
    def initialize(self, args):
        pb_utils.Logger.log_info("one\\ntwo")
        pb_utils.Logger.log("three", pb_utils.Logger.ERROR)
        pb_utils.Logger.log_warn("four")
        pb_utils.Logger.log_verbose("five")
"""
    with caplog.at_level(logging.DEBUG):
        async with PythonModel(tmp_path, body):
            pass
    lines = [record for record in caplog.records if record.filename == "model.py"]
    assert [(line.levelname, line.lineno, line.getMessage()) for line in lines] == [
        ("INFO", 10, "one\ntwo"),
        ("ERROR", 11, "three"),
        ("WARNING", 12, "four"),
        ("DEBUG", 13, "five"),
    ]
