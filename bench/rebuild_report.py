"""The results of the rebuild benchmark: what is counted, its cases, its ratios and its plot."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lines import Line, Spread
from report import Report, Section, plot

if TYPE_CHECKING:
    from pathlib import Path

    from workload import Case

COUNTED = (
    "Both sides check body CRCs, and their clocks run until everything they built is synced to the disk.",
    "Peer: RocketMQ's own store code loads a store without indexes, in a new JVM whose start is not counted.",
    "end to end: `python -m reput rebuild STORE --json`, wall clock: the start of Python counts.",
    "in Spark: the same with --spark, so that Spark runs all tasks: the start of Java and Spark counts, too.",
    "warm: `reput.rebuild(STORE, spark=session)` in a session of reput's settings that has rebuilt a small store.",
    "Before each run: indexes put away, dirty pages written, the log read once. Values are the medians.",
    "After each run of reput: its files equal the peer's byte for byte; only IndexFiles have other names.",
    "Memory: PSS summed over reput's processes, sampled every 100 ms in three `reput rebuild` that are not timed.",
    "ratio: peer seconds over reput seconds, end to end, in Spark and warm, at the largest size.",
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
    in_spark_seconds: list[float] = field(default_factory=list)
    warm_seconds: list[float] = field(default_factory=list)
    files_compared: int = 0
    peak_pss_samples: list[int] = field(default_factory=list)

    @property
    def end_to_end(self) -> Line:
        """The seconds of the command, with everything that starts."""
        return Line(f"{self.case}, end to end", "s", self.end_to_end_seconds, self.peer_seconds)

    @property
    def in_spark(self) -> Line:
        """The seconds of the command if Spark runs all tasks."""
        return Line(f"{self.case}, end to end in Spark", "s", self.in_spark_seconds, self.peer_seconds)

    @property
    def warm(self) -> Line:
        """The seconds of reput in a warm session."""
        return Line(f"{self.case}, warm session", "s", self.warm_seconds, self.peer_seconds)

    @property
    def memory(self) -> Line:
        """The most memory that reput's processes held at once."""
        return Line(f"{self.case}, peak memory", "GiB", [one / 2**30 for one in self.peak_pss_samples])

    def lines(self) -> dict[str, Line]:
        """The four, by name."""
        key = f"{self.case.messages}_in_{self.case.queues}"
        return {
            f"end_to_end_{key}": self.end_to_end,
            f"in_spark_{key}": self.in_spark,
            f"warm_{key}": self.warm,
            f"memory_{key}": self.memory,
        }


def ratios(plain: list[Measured], many_queues: Measured | None) -> dict[str, float]:
    """Peer seconds over reput seconds, as COUNTED defines them; what was not measured is NaN.

    `plain` is in order of size.
    """
    measured = [*plain, *([many_queues] if many_queues else [])]
    largest = plain[-1] if plain else None
    return {
        "end_to_end": largest.end_to_end.ratio if largest else math.nan,
        "in_spark": largest.in_spark.ratio if largest else math.nan,
        "warm": largest.warm.ratio if largest else math.nan,
        "marginal": _marginal(plain),
        "queues_10000": many_queues.warm.ratio if many_queues else math.nan,
        "rss_gib": max((one.memory.median for one in measured), default=math.nan),
    }


def _marginal(plain: list[Measured]) -> float:
    if len(plain) < 2:
        return math.nan
    small, large = (one.warm for one in plain[-2:])
    ours = large.median - small.median
    return (large.peer_median - small.peer_median) / ours if ours > 0 else math.nan


HEADINGS = ("messages", "queues", "log GB", "RocketMQ k/s", "reput k/s", "in Spark k/s", "warm k/s")


def report(about: dict[str, Any], plain: list[Measured], crowded: list[Measured]) -> Report:
    """The results of a run."""
    measured = [*plain, *crowded]
    lines = {key: line for one in measured for key, line in one.lines().items()}
    rates = Section(HEADINGS, [_rates(one) for one in measured], "Thousands of messages a second")
    return Report(
        "rebuild",
        "Rebuild: reput beside RocketMQ",
        about,
        COUNTED,
        lines,
        [Section.of(lines.values(), "Rebuild of ConsumeQueue and IndexFile (messages-in-queues)"), rates],
        [ratios(plain, crowded[-1] if crowded else None)],
        draw=partial(_draw, plain=plain),
        picture="seconds against messages",
        details={"files_compared": {str(one.case): one.files_compared for one in measured}},
    )


def _rates(one: Measured) -> list[str]:
    seconds = (Spread.of(one.peer_seconds).median, one.end_to_end.median, one.in_spark.median, one.warm.median)
    return [
        f"{one.case.messages:,}",
        f"{one.case.queues:,}",
        f"{one.log_bytes / 1e9:.2f}",
        *(f"{one.case.messages / value / 1e3:,.0f}" for value in seconds),
    ]


def _draw(path: Path, plain: list[Measured]) -> None:
    with plot(path, size=(7, 4.5)) as (axes,):
        millions = [one.case.messages / 1e6 for one in plain]
        axes.plot(millions, [one.warm.peer_median for one in plain], "o-", label="RocketMQ 5.5.1")
        axes.plot(millions, [one.end_to_end.median for one in plain], "s-", label="reput")
        axes.plot(millions, [one.in_spark.median for one in plain], "D-", label="reput, Spark started for it")
        axes.plot(millions, [one.warm.median for one in plain], "^-", label="reput, warm session of Spark")
        axes.set_xlabel("messages (millions)")
        axes.set_ylabel("seconds")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend()
        axes.set_title("Rebuild of ConsumeQueue and IndexFile, 64 queues")
