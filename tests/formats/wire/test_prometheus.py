"""The text that Prometheus reads; Prometheus' own parser reads it back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.wire.prometheus import COUNTER, GAUGE, HISTOGRAM, Buckets, Metric, Series, encode


def test_the_text_of_each_kind() -> None:
    """A counter and a gauge have a line for each set of labels, a histogram one for each bucket, its count and sum."""
    metrics = [
        Metric("in_total", COUNTER, "Messages\nin", [Series({"topic": 'a"b\\c\nd'}, 3)]),
        Metric("nothing", GAUGE, "left out", []),
        Metric("age", GAUGE, "Age", [Series({}, 1.5)]),
        Metric("size", HISTOGRAM, "Size", [Series({}, Buckets((1, 4), (2, 0, 1), 20))]),
    ]
    assert encode(metrics, {"node": "n"}).decode() == (
        "# HELP in_total Messages\\nin\n# TYPE in_total counter\n"
        'in_total{node="n",topic="a\\"b\\\\c\\nd"} 3.0\n'
        '# HELP age Age\n# TYPE age gauge\nage{node="n"} 1.5\n'
        "# HELP size Size\n# TYPE size histogram\n"
        'size_bucket{node="n",le="1.0"} 2\nsize_bucket{node="n",le="4.0"} 2\nsize_bucket{node="n",le="+Inf"} 3\n'
        'size_count{node="n"} 3\nsize_sum{node="n"} 20.0\n'
    )


# Prometheus keeps names that begin with two underscores for itself.
NAMES = st.from_regex(r"_?[a-z][a-z_]{0,8}", fullmatch=True)
LABELS = st.dictionaries(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=9), max_size=3)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=9), LABELS, st.floats(allow_nan=False))
def test_prometheus_reads_what_was_written(meaning: str, labels: dict[str, str], value: float) -> None:
    """Prometheus' parser finds the labels and the value, whatever the texts are."""
    parser = pytest.importorskip("prometheus_client.parser", reason="pip install prometheus_client")
    text = encode([Metric("x", GAUGE, meaning, [Series(labels, value)])], {}).decode()
    ((sample,),) = [one.samples for one in parser.text_string_to_metric_families(text)]
    assert (sample.labels, sample.value) == (labels, value)
