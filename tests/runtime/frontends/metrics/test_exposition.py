import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from charonia_runtime.frontends.metrics.exposition import label_text, number, render


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (25276514304, "25276514304"), (2**63, "9223372036854775808"), (1.0, "1"), (0.005, "0.005"),
        (0.0001220703125, "0.0001220703125"), (math.nan, "Nan"), (math.inf, "+Inf"), (-math.inf, "-Inf"),
    ],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


def family(name, kind, *samples):
    """A family with samples: each labels and a value."""
    metric = Metric(name, "text", kind)
    for labels, value in samples:
        metric.add_sample(name, labels, value)
    return metric


def test_labels_are_in_the_order_of_bytes():
    labels = {"version": "1", "model": "m", "_team": "t", "_Zed": "z"}

    assert label_text(labels) == '{_Zed="z",_team="t",model="m",version="1"}'
    assert label_text({}) == ""


def test_what_tells_lines_of_a_series_apart_comes_last():
    labels = {"model": "m", "zone": "z", "quantile": "0.5", "le": "7"}

    assert label_text(labels, "quantile") == '{le="7",model="m",zone="z",quantile="0.5"}'
    assert "".join(render([family("a", "histogram", (labels, 1))])).endswith(
        'a{model="m",quantile="0.5",zone="z",le="7"} 1\n'
    )
    assert "".join(render([family("a", "gauge", (labels, 1))])).endswith(
        'a{le="7",model="m",quantile="0.5",zone="z"} 1\n'
    )


def test_families_without_series_have_no_text():
    text = "".join(render([family("a", "gauge"), family("b", "counter", ({}, 1))]))

    assert text == "# HELP b text\n# TYPE b counter\nb 1\n"


def test_long_families_come_in_pieces():
    metric = family("a", "gauge", *(({"n": str(index)}, index) for index in range(1000)))
    pieces = list(render([metric]))

    assert max(piece.count("\n") for piece in pieces) <= 256
    assert "".join(pieces).splitlines()[2:] == [f'a{{n="{index}"}} {index}' for index in range(1000)]


def test_help_stays_on_its_line():
    metric = Metric("a", "one\ntwo \\ three", "gauge")
    metric.add_sample("a", {}, 1)

    assert "".join(render([metric])).splitlines()[0] == r"# HELP a one\ntwo \\ three"


@given(
    labels=st.dictionaries(st.sampled_from(["a", "_b", "C9"]), st.text(st.characters(exclude_categories=["Cs"]))),
    value=st.floats(-1e300, 1e300),
)
def test_what_is_written_can_be_read(labels, value):
    text = "".join(render([family("name", "gauge", (labels, value))]))

    (read,) = text_string_to_metric_families(text)
    (sample,) = read.samples
    assert sample.labels == labels
    assert sample.value == pytest.approx(value, rel=1e-15)
