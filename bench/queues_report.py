"""The results of the benchmark of queue kinds: what is counted, its lines and its ratios."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lines import Line
from report import Report, Section, draw_ratios, plot

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = (
    "rebuild: both sides build RocksDB queues and IndexFiles from the log and check CRCs; synced at the end, warm.",
    "get: 32 a pull over all queues of one store, nothing decoded.",
    "put: one thread, in the number of queues that is given. million_put: that rate over the one at 64 queues, both of",
    "    reput.",
    "sql: one filter over the same records of a mapped log file; the best of several rounds on each side.",
    "Values are the medians of the rounds.",
)
COMPARED = ("rocksdb_rebuild", "rocksdb_rebuild_10000", "rocksdb_get_32", "sql")


def lines(many: int) -> dict[str, Line]:
    """Everything that is measured, without values yet; `many`: the number of queues where they are many."""
    store = f"{many:,} queues in RocksDB"
    return {
        "rocksdb_rebuild": Line("rebuild into RocksDB, 64 queues", "s"),
        "rocksdb_rebuild_10000": Line("rebuild into RocksDB, 10,000 queues", "s"),
        "rocksdb_get_32": Line("get from RocksDB, 32 a pull", "messages/s"),
        "sql": Line("SQL92 filter", "s"),
        "put_64": Line("put, 64 queues in RocksDB", "messages/s"),
        "put_many": Line(f"put, {store}", "messages/s"),
        "put_many_gib": Line(f"memory after the puts, {store}", "GiB"),
        "put_many_indexed_gib": Line(f"memory after indexing, {store}", "GiB"),
        "open_many_s": Line(f"open, {store}", "s"),
        "open_many_gib": Line(f"memory of the opened store, {store}", "GiB"),
        "open_many_files": Line(f"its open files, {store}", ""),
    }


def ratios(measured: dict[str, Line]) -> dict[str, float]:
    """Return how far reput is ahead; `million_put` compares reput with itself."""
    found = {name: measured[name].ratio for name in COMPARED[:-1]}
    return {
        **found,
        "million_put": measured["put_many"].median / measured["put_64"].median,
        "sql": measured["sql"].ratio,
    }


def report(about: dict[str, Any], measured: dict[str, Line]) -> Report:
    """The results of a run."""
    return Report(
        "queues",
        "Kinds of queues: reput beside RocketMQ",
        about,
        COUNTED,
        measured,
        [Section.of(measured.values())],
        [ratios(measured)],
        draw=partial(_draw, measured=measured),
    )


def _draw(path: Path, measured: dict[str, Line]) -> None:
    with plot(path, size=(8, 3.5)) as (axes,):
        draw_ratios(axes, measured)
