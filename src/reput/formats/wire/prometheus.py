"""The text by which Prometheus reads metrics, version 0.0.4.

Each line is a series, and two comments begin a metric. A counter's name ends with `_total`. A histogram has a series
for each bucket, which counts all values up to its bound (`le`; the last one is `+Inf`), one for their count, and one
for their sum.

Source: Prometheus' text-based format; RocketMQ writes it by OpenTelemetry's `PrometheusHttpServer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


class Buckets(NamedTuple):
    """A histogram's values: `counts` of each bucket alone, one more than there are bounds, and their sum."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


class Series(NamedTuple):
    """A value of a metric, for one set of labels."""

    labels: Mapping[str, str]
    value: float | Buckets


class Metric(NamedTuple):
    """A metric: its name, kind (COUNTER, GAUGE or HISTOGRAM), meaning, and a series for each set of labels."""

    name: str
    kind: str
    meaning: str
    series: Sequence[Series]


def encode(metrics: Iterable[Metric], labels: Mapping[str, str]) -> bytes:
    """Return metrics as text, `labels` before the labels of each series. A metric without series is left out."""
    lines: list[str] = []
    first = _pairs(labels)
    for metric in metrics:
        if metric.series:
            lines.append(f"# HELP {metric.name} {metric.meaning.translate(_HELP_ESCAPES)}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
        for one in metric.series:
            pairs = first + _pairs(one.labels)
            if isinstance(one.value, Buckets):
                lines += _bucket_lines(metric.name, pairs, one.value)
            else:
                lines.append(f"{metric.name}{_braced(pairs)} {_number(one.value)}")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _bucket_lines(name: str, pairs: list[str], buckets: Buckets) -> Iterable[str]:
    bounds = [*(_number(bound) for bound in buckets.bounds), "+Inf"]
    counts = list(accumulate(buckets.counts))
    for bound, count in zip(bounds, counts, strict=True):
        yield f"{name}_bucket{_braced([*pairs, _pair('le', bound)])} {count}"
    yield f"{name}_count{_braced(pairs)} {counts[-1]}"
    yield f"{name}_sum{_braced(pairs)} {_number(buckets.sum)}"


def _pairs(labels: Mapping[str, str]) -> list[str]:
    return [_pair(name, value) for name, value in labels.items()]


def _pair(name: str, value: str) -> str:
    return f'{name}="{value.translate(_ESCAPES)}"'


def _braced(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: float) -> str:
    """Return a number as OpenTelemetry writes it, with a point."""
    return repr(float(value))
