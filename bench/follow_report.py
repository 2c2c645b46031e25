"""The results of the follow benchmark: what is counted, its lines, its figures and its plots."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lines import Line
from report import Report, Section, plot

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = (
    "Follow: a process puts messages one by one at the given rate, a process of reput follows on Spark, a third looks.",
    "visible: from an offset's confirmation until the frontier has passed it; durable: until the synced frontier has.",
    "memory: PSS of the follower and its processes. memory_growth: the run's last third over its middle third.",
    "Afterwards `reput check` finds the followed store sound.",
    "catch_up: peer seconds over reput seconds, from a log without indexes to synced ones, both checking CRCs.",
    "    The peer's JVM is new, and its start is not counted; reput's session is warm.",
    'scan: format("rocketmq"), all messages, count and sum of sizes. parquet: seven columns with bodies, zstd.',
    "narrow: one topic, as much time as holds 6 million messages, counted. Each after the same on a small store.",
    "    They run in a plain Spark session, catch-up and following in reput's own, which starts faster.",
    "The log is in the page cache. Values are the medians of the rounds; records have 296 bytes.",
)


@dataclass
class Found:
    """The measurements of a run; seconds, one a round."""

    messages: int
    log_bytes: int
    follow: dict[str, Any] = field(default_factory=dict)
    peer_seconds: list[float] = field(default_factory=list)
    catch_up_seconds: list[float] = field(default_factory=list)
    scan_seconds: list[float] = field(default_factory=list)
    parquet_seconds: list[float] = field(default_factory=list)
    narrow_seconds: list[float] = field(default_factory=list)
    narrow_messages: int = 0

    def ratios(self) -> dict[str, float]:
        """The figures of the last line."""
        median = statistics.median
        return {
            "catch_up": median(self.peer_seconds) / median(self.catch_up_seconds),
            "p50_ms": self.follow["visible_ms"]["p50"],
            "p99_ms": self.follow["visible_ms"]["p99"],
            "scan_mps": self.messages / median(self.scan_seconds) / 1e6,
            "parquet_mps": self.messages / median(self.parquet_seconds) / 1e6,
        }

    def further(self) -> dict[str, float]:
        """Figures of the line before it."""
        memory = [size for _, size in self.follow["memory"]]
        third = max(1, len(memory) // 3)
        return {
            "durable_p99_ms": self.follow["durable_ms"]["p99"],
            "memory_gib": max(memory) / 2**30,
            "memory_growth": statistics.median(memory[-third:]) / statistics.median(memory[third : 2 * third]),
            "narrow_s": statistics.median(self.narrow_seconds),
        }


def lines(found: Found) -> dict[str, Line]:
    """Everything that was measured, a value a round; what the follower did was measured once."""
    followed, further = found.follow, found.further()
    visible, durable = followed["visible_ms"], followed["durable_ms"]

    def rate(seconds: list[float]) -> list[float]:
        return [found.messages / one / 1e6 for one in seconds]

    narrow = f"narrow, {found.narrow_messages:,} messages (wanted: below 1.5)"
    return {
        "visible_p50": Line("append to visible, p50 (wanted: below 250)", "ms", [visible["p50"]]),
        "visible_p99": Line("append to visible, p99 (wanted: below 500)", "ms", [visible["p99"]]),
        "visible_max": Line("append to visible, longest", "ms", [visible["max"]]),
        "durable_p99": Line("append to durable, p99 (wanted: below 3,000)", "ms", [durable["p99"]]),
        "writer": Line("the writer beside the follower", "messages/s", [followed["writer_rate"]]),
        "memory": Line("the follower's memory", "GiB", [further["memory_gib"]]),
        "catch_up": Line("catch-up (wanted: x 6)", "s", found.catch_up_seconds, found.peer_seconds),
        "scan": Line("scan (wanted: 3)", "M messages/s", rate(found.scan_seconds)),
        "parquet": Line("Parquet (wanted: 0.4)", "M messages/s", rate(found.parquet_seconds)),
        "narrow": Line(narrow, "s", found.narrow_seconds),
    }


def report(about: dict[str, Any], found: Found) -> Report:
    """The results of a run."""
    measured = lines(found)
    return Report(
        "follow",
        "Follow and scan",
        about,
        COUNTED,
        measured,
        [Section.of(measured.values())],
        [found.further(), found.ratios()],
        draw=partial(_draw, found=found),
        picture="latency and memory",
        details=asdict(found),
    )


def _draw(path: Path, found: Found) -> None:
    with plot(path, columns=2, size=(11, 4)) as (left, right):
        names = ("p50", "p99", "max")
        left.bar([f"visible\n{name}" for name in names], [found.follow["visible_ms"][name] for name in names])
        left.bar([f"durable\n{name}" for name in names], [found.follow["durable_ms"][name] for name in names])
        left.set_ylabel("ms since append")
        left.set_title(f"a follower beside {found.follow['writer_rate']:,.0f} messages a second")
        memory = found.follow["memory"]
        right.plot([at / 60 for at, _ in memory], [size / 2**30 for _, size in memory])
        right.set_ylim(bottom=0)
        right.set_xlabel("minutes")
        right.set_ylabel("GiB")
        right.set_title("memory of the follower and its processes")
