"""The results of the store benchmark: its ratios, and the table, JSON, Markdown and plots that show them."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from page import write_page
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COUNTED = (
    "Peer: RocketMQ's own store code in a JVM; neither its start nor Python's and the kernels' loading is counted.",
    "Records of 296 bytes: a unique key, a key and a tag each. Values are medians of rates; x: reput over peer.",
    "put: one thread, async flush, all checks; from topic, body, tags, keys and unique key to the answer, the message",
    "    object and its properties included, in chunks so long that the background work of both goes on beside.",
    "put_messages: Arrow columns, in batches of a size given above, beside the peer's single put.",
    "Puts: a warm-up goes into the same store first. After each run both logs and queues have the same lengths.",
    "get: passes over all queues of one store that the peer wrote, in the page cache, nothing decoded.",
    "get 500: the peer gives at most 32 a pull by default; the other line is with its limit raised to 500.",
    "time, key: the same questions to both, on that store; the sums of the answers are equal. The peer also gives",
    "    messages of other keys with the same hash: left out of its sum outside the clock; reput does it inside.",
    "times, keys: the same questions, all of a topic in one call, beside the peer's calls one by one.",
    "open: a log without indexes, as a kill leaves it, in the page cache; the peer's recovery indexes it, reput's",
    "    decodes it into the tail; afterwards both know the same queues.",
    "sync: threads that put with sync flush; put_message_async: one thread that waits for its oldest message only,",
    "    beside the peer's threads. sync_group: reput's rate with threads over the device's fsync rate times them.",
    "flat_256: reput's put in 256 topics over that in 64 (8 queues each); queues_10000: in 10,000 queues over 64.",
)


@dataclass
class Line:
    """One thing measured on both sides: rates, one a round; no peer's where it has no such thing."""

    name: str
    unit: str
    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The median rate of reput."""
        return statistics.median(self.ours) if self.ours else math.nan

    @property
    def peer_rate(self) -> float:
        """The peer's median rate."""
        return statistics.median(self.peer) if self.peer else math.nan

    @property
    def ratio(self) -> float:
        """The rate of reput over the peer's."""
        return self.rate / self.peer_rate if self.peer else math.nan


def ratios(lines: dict[str, Line]) -> dict[str, float]:
    """The ratios of the last line of output, as COUNTED defines them."""
    names = ("put", "put_messages", "get_32", "get_500", "time", "times", "key", "keys")
    return {
        **{name: lines[name].ratio for name in names},
        "flat_256": lines["topics_256"].rate / lines["topics_64"].rate,
        "queues_10000": lines["queues_10000"].rate / lines["put"].rate,
    }


def further_ratios(lines: dict[str, Line], threads: int) -> dict[str, float]:
    """Ratios of the line before it."""
    return {
        "flat_128": lines["topics_128"].rate / lines["topics_64"].rate,
        "get_500_raised": lines["get_500_raised"].ratio,
        "open": lines["open"].ratio,
        "sync": lines["sync"].ratio,
        "sync_group": lines["sync"].rate / (lines["fsync"].rate * threads),
        "sync_async": lines["sync_async"].ratio,
    }


TITLE = "The message store: reput beside RocketMQ"
HEADINGS = ("measured", "unit", "peer", "reput", "x", "reput's rounds")


def rows(lines: Sequence[Line]) -> list[list[str]]:
    """The table's cells, one row a line."""
    return [
        [line.name, line.unit, _number(line.peer_rate), _number(line.rate), _ratio(line.ratio), _spread(line)]
        for line in lines
    ]


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _ratio(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _spread(line: Line) -> str:
    return f"{_number(min(line.ours))} to {_number(max(line.ours))}" if line.ours else "-"


def table(lines: Sequence[Line]) -> Table:
    """The table for a terminal."""
    made = Table(title="The message store (x: reput's rate over the peer's)")
    for heading in HEADINGS:
        made.add_column(heading, justify="left" if heading in HEADINGS[:2] else "right")
    for row in rows(lines):
        made.add_row(*row)
    return made


def save(
    stem: Path, about: dict[str, Any], lines: dict[str, Line], further: dict[str, float], found: dict[str, float]
) -> None:
    """Write `stem` with .json, .md and .png."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    ratios = {**further, **found}
    numbers = {name: None if math.isnan(value) else value for name, value in ratios.items()}
    measured = {key: asdict(line) for key, line in lines.items()}
    content = {**about, "counted": COUNTED, "ratios": numbers, "lines": measured}
    stem.with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")
    cells = [HEADINGS, *rows(list(lines.values()))]
    write_page(stem, TITLE, about, COUNTED, cells, [further, found], "rates and ratios", words=2)
    _plot(stem.with_suffix(".png"), lines, found)


def _plot(path: Path, lines: dict[str, Line], found: dict[str, float]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    puts = [lines[name] for name in ("put", "topics_64", "topics_128", "topics_256", "queues_10000")]
    places = range(len(puts))
    left.bar([place - 0.2 for place in places], [one.peer_rate for one in puts], 0.4, label="RocketMQ 5.5.1")
    left.bar([place + 0.2 for place in places], [one.rate for one in puts], 0.4, label="reput")
    labels = ["64\nqueues", "64\ntopics", "128\ntopics", "256\ntopics", "10,000\nqueues"]
    left.set_xticks(list(places), labels)
    left.set_ylabel("messages a second")
    left.set_title("put_message, one thread, async flush")
    left.legend()
    names = [name for name in found if name not in ("flat_256", "queues_10000")] + ["open"]
    values = [lines[name].ratio for name in names]
    right.barh(names, values, color="tab:orange")
    right.axvline(1, color="black", linewidth=0.8)
    right.set_xscale("log")
    right.margins(x=0.15)
    right.invert_yaxis()
    for place, value in enumerate(values):
        right.text(value, place, f" {value:.2f}", va="center")
    right.set_title("reput's rate over RocketMQ's")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)
