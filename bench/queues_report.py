"""The results of the benchmark of queue kinds, as a table, JSON, Markdown and a plot."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any

from page import write_page

if TYPE_CHECKING:
    from pathlib import Path

    Values = dict[str, list[float]]

COUNTED = (
    "rebuild: both sides build RocksDB queues and IndexFiles from the log and check CRCs; synced at the end, warm.",
    "get: 32 a pull over all queues of one store, nothing decoded.",
    "put: one thread, in the number of queues that is given; x: the rate there over that at 64 queues, both reput's.",
    "sql: one filter over the same records of a mapped log file; the best of several rounds on each side.",
    "Values are the medians of the rounds.",
)
_PAIRS = (
    ("rebuild into RocksDB, 64 queues", "s", "rebuild_peer_s", "rebuild_ours_s"),
    ("rebuild into RocksDB, 10,000 queues", "s", "rebuild_10000_peer_s", "rebuild_10000_ours_s"),
    ("get from RocksDB, 32 a pull", "messages/s", "get_32_peer", "get_32_ours"),
    ("SQL92 filter", "s", "sql_peer_s", "sql_ours_s"),
)
_ALONE = (
    ("put, 64 queues", "messages/s", "put_64"),
    ("put, a million queues", "messages/s", "put_many"),
    ("its memory after the puts", "GiB", "put_many_gib"),
    ("its memory after indexing", "GiB", "put_many_indexed_gib"),
    ("opened again", "s", "open_many_s"),
    ("memory then", "GiB", "open_many_gib"),
    ("open files then", "", "open_many_files"),
)
HEADINGS = ("measured", "unit", "peer", "reput", "x")


def rows(values: Values) -> list[list[str]]:
    """The table's cells, one row a line."""
    found = []
    for name, unit, peer, ours in _PAIRS:
        left, right = statistics.median(values[peer]), statistics.median(values[ours])
        found.append(
            [name, unit, _number(left), _number(right), f"{left / right if unit == 's' else right / left:.2f}"]
        )
    alone = [(name, unit, statistics.median(values[key])) for name, unit, key in _ALONE]
    return found + [[name, unit, "", _number(value), ""] for name, unit, value in alone]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def text(values: Values) -> str:
    """The table for a terminal."""
    lines = [list(HEADINGS), *rows(values)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def save(stem: Path, about: dict[str, Any], values: Values, found: dict[str, float]) -> None:
    """Write `stem` with .json, .md and .png."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    content = {**about, "counted": COUNTED, "ratios": found, "values": values}
    stem.with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")
    table = [HEADINGS, *rows(values)]
    write_page(stem, "Kinds of queues: reput beside RocketMQ", about, COUNTED, table, [found], "ratios", words=2)
    _plot(stem.with_suffix(".png"), found)


def _plot(path: Path, found: dict[str, float]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    axes.barh(list(found), list(found.values()), color="tab:orange")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.set_title("reput over RocketMQ; million_put: over itself at 64 queues")
    for place, value in enumerate(found.values()):
        axes.text(value, place, f" {value:.2f}", va="center")
    figure.savefig(path, dpi=130)
    plt.close(figure)
