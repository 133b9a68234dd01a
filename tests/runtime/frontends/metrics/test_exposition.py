import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from charonia_runtime.frontends.metrics.exposition import Family, label_text, number, render


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (25276514304, "25276514304"), (2**63, "9223372036854775808"), (1.0, "1"), (0.005, "0.005"),
        (0.0001220703125, "0.0001220703125"), (math.nan, "Nan"), (math.inf, "+Inf"), (-math.inf, "-Inf"),
    ],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


def test_labels_are_in_the_order_of_bytes():
    labels = {"version": "1", "model": "m", "_team": "t", "_Zed": "z"}

    assert label_text(labels) == '{_Zed="z",_team="t",model="m",version="1"}'
    assert label_text(labels, "0.5") == '{_Zed="z",_team="t",model="m",version="1",quantile="0.5"}'
    assert label_text({}) == ""


def test_families_without_series_have_no_text():
    assert render([Family("a", "gauge", "nothing"), Family("b", "gauge", "something").add(1)]) == (
        b"# HELP b something\n# TYPE b gauge\nb 1\n"
    )


@given(
    labels=st.dictionaries(st.sampled_from(["a", "_b", "C9"]), st.text(st.characters(exclude_categories=["Cs"]))),
    value=st.floats(-1e300, 1e300),
)
def test_what_is_written_can_be_read(labels, value):
    text = render([Family("name", "gauge", "text").add(value, label_text(labels))]).decode()

    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert sample.labels == labels
    assert sample.value == pytest.approx(value, rel=1e-15)
