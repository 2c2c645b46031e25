"""The results of a benchmark run: its ratios, and the table, JSON, Markdown and plot that show them."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from page import write_page
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from workload import Case

COUNTED = (
    "Both sides check body CRCs, and their clocks run until everything they built is synced to the disk.",
    "Peer: RocketMQ's own store code loads a store without indexes; the start of its JVM is not counted.",
    "reput: `python -m reput rebuild STORE --json`, wall clock: the start of Python, Java and Spark counts.",
    "warm: `reput.rebuild(STORE, spark=session)` in a session of reput's settings that has rebuilt a small store.",
    "Before each run: indexes put away, dirty pages written, the log read once. Values are the medians.",
    "After each run of reput: its files equal the peer's byte for byte; only IndexFiles have other names.",
    "Memory: PSS summed over reput's processes, sampled every 100 ms in three `reput rebuild` that are not timed.",
    "ratio: peer seconds over reput seconds, end to end and warm, at the largest size.",
    "marginal: the same, warm, of the difference between the two largest sizes. queues_10000: warm.",
    "rss_gib: the highest memory of all cases.",
)


@dataclass
class Measured:
    """A case, with the seconds of each round and reput's peak memory."""

    case: Case
    log_bytes: int
    peer_seconds: list[float] = field(default_factory=list)
    peer_jvm_start_seconds: list[float] = field(default_factory=list)
    end_to_end_seconds: list[float] = field(default_factory=list)
    warm_seconds: list[float] = field(default_factory=list)
    files_compared: int = 0
    peak_pss_samples: list[int] = field(default_factory=list)

    @property
    def peak_pss_bytes(self) -> int:
        """Median of the most memory that reput's processes held at once."""
        return round(statistics.median(self.peak_pss_samples or [0]))

    @property
    def peer(self) -> float:
        """Median seconds of the peer."""
        return statistics.median(self.peer_seconds)

    @property
    def end_to_end(self) -> float:
        """Median seconds of reput with everything that starts."""
        return statistics.median(self.end_to_end_seconds)

    @property
    def warm(self) -> float:
        """Median seconds of reput in a warm session."""
        return statistics.median(self.warm_seconds)


def ratios(plain: list[Measured], many_queues: Measured | None) -> dict[str, float]:
    """Peer seconds over reput seconds, as COUNTED defines them; what was not measured is NaN.

    `plain` is in order of size.
    """
    measured = [*plain, *([many_queues] if many_queues else [])]
    largest = plain[-1] if plain else None
    return {
        "end_to_end": largest.peer / largest.end_to_end if largest else math.nan,
        "warm": largest.peer / largest.warm if largest else math.nan,
        "marginal": _marginal(plain),
        "queues_10000": many_queues.peer / many_queues.warm if many_queues else math.nan,
        "rss_gib": max((one.peak_pss_bytes for one in measured), default=math.nan) / 2**30,
    }


def _marginal(plain: list[Measured]) -> float:
    if len(plain) < 2:
        return math.nan
    small, large = plain[-2:]
    ours = large.warm - small.warm
    return (large.peer - small.peer) / ours if ours > 0 else math.nan


PICTURE = "seconds against messages"
HEADINGS = (
    "messages",
    "queues",
    "log GB",
    "peer s",
    "reput s",
    "warm s",
    "peer k/s",
    "reput k/s",
    "warm k/s",
    "reput x",
    "warm x",
    "peak GiB",
)


def rows(measured: list[Measured]) -> list[list[str]]:
    """The table's cells, one row a case."""
    return [_row(one) for one in measured]


def _row(one: Measured) -> list[str]:
    seconds = (one.peer, one.end_to_end, one.warm)
    return [
        f"{one.case.messages:,}",
        f"{one.case.queues:,}",
        f"{one.log_bytes / 1e9:.2f}",
        *(f"{value:.2f}" for value in seconds),
        *(f"{one.case.messages / value / 1e3:,.0f}" for value in seconds),
        f"{one.peer / one.end_to_end:.2f}",
        f"{one.peer / one.warm:.2f}",
        f"{one.peak_pss_bytes / 2**30:.2f}",
    ]


def table(measured: list[Measured]) -> Table:
    """The table for a terminal."""
    made = Table(title="Rebuild of ConsumeQueue and IndexFile (x: peer seconds over reput seconds)")
    for heading in HEADINGS:
        made.add_column(heading, justify="right")
    for row in rows(measured):
        made.add_row(*row)
    return made


def save(stem: Path, environment: dict[str, Any], measured: list[Measured], found: dict[str, float]) -> None:
    """Write `stem` with .json, .md and .png."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(_json(environment, measured, found))
    table = [HEADINGS, *rows(measured)]
    write_page(stem, "Rebuild: reput beside RocketMQ", environment, COUNTED, table, [found], PICTURE, words=0)
    _plot(stem.with_suffix(".png"), [one for one in measured if one.case.queues == measured[0].case.queues])


def _json(environment: dict[str, Any], measured: list[Measured], found: dict[str, float]) -> str:
    numbers = {name: None if math.isnan(value) else value for name, value in found.items()}
    cases = [asdict(one) for one in measured]
    content = {**environment, "counted": COUNTED, "ratios": numbers, "cases": cases}
    return json.dumps(content, indent=2) + "\n"


def _plot(path: Path, plain: list[Measured]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    millions = [one.case.messages / 1e6 for one in plain]
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    axes.plot(millions, [one.peer for one in plain], "o-", label="RocketMQ 5.5.1")
    axes.plot(millions, [one.end_to_end for one in plain], "s-", label="reput, with Spark's start")
    axes.plot(millions, [one.warm for one in plain], "^-", label="reput, warm session")
    axes.set_xlabel("messages (millions)")
    axes.set_ylabel("seconds")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    axes.set_title("Rebuild of ConsumeQueue and IndexFile, 64 queues")
    figure.savefig(path, dpi=130)
    plt.close(figure)
