"""The results of the follow benchmark, as a table, JSON, Markdown and plots."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from page import write_page
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = (
    "Follow: a process puts messages one by one at the given rate, a process of reput follows on Spark, a third looks.",
    "visible: from an offset's confirmation until the frontier has passed it; durable: until the synced frontier has.",
    "memory: PSS of the follower and its processes. memory_growth: the run's last third over its middle third.",
    "Afterwards `reput check` finds the followed store sound.",
    "catch_up: peer seconds over reput seconds, from a log without indexes to synced ones, both checking CRCs.",
    "    The peer's JVM start is not counted, reput's session is warm.",
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


def rows(found: Found) -> list[tuple[str, str, str]]:
    """Return each measurement: name, value, goal."""
    ratios, further, visible = found.ratios(), found.further(), found.follow["visible_ms"]
    median = statistics.median
    return [
        ("append to visible, p50", f"{visible['p50']:.0f} ms", "< 250 ms"),
        ("append to visible, p99", f"{visible['p99']:.0f} ms", "< 500 ms"),
        ("append to visible, longest", f"{visible['max']:.0f} ms", ""),
        ("append to durable, p99", f"{found.follow['durable_ms']['p99']:.0f} ms", "< 3000 ms"),
        ("writer's rate", f"{found.follow['writer_rate']:,.0f} messages/s", "100,000"),
        ("follower's memory", f"{further['memory_gib']:.2f} GiB, x {further['memory_growth']:.3f}", "no growth"),
        ("RocketMQ's reput", f"{median(found.peer_seconds):.2f} s", ""),
        ("catch-up", f"{median(found.catch_up_seconds):.2f} s, {ratios['catch_up']:.2f} x", ">= 6 x"),
        ("scan", f"{median(found.scan_seconds):.2f} s, {ratios['scan_mps']:.2f} M/s", ">= 3 M/s"),
        ("Parquet", f"{median(found.parquet_seconds):.2f} s, {ratios['parquet_mps']:.2f} M/s", ">= 0.4 M/s"),
        (f"narrow, {found.narrow_messages:,} messages", f"{further['narrow_s']:.2f} s", "< 1.5 s"),
    ]


HEADINGS = ("measured", "value", "goal")


def table(lines: list[tuple[str, str, str]]) -> Table:
    """The table for a terminal."""
    made = Table(title="Follow and scan")
    for heading in HEADINGS:
        made.add_column(heading, justify="left" if heading == "measured" else "right")
    for line in lines:
        made.add_row(*line)
    return made


def save(stem: Path, about: dict[str, Any], found: Found, lines: list[tuple[str, str, str]]) -> None:
    """Write `stem` with .json, .md and .png."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    content = {**about, "counted": COUNTED, "ratios": found.ratios() | found.further(), **asdict(found)}
    stem.with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")
    ratios = [found.further(), found.ratios()]
    write_page(stem, "Follow and scan", about, COUNTED, [HEADINGS, *lines], ratios, "latency and memory")
    _plot(stem.with_suffix(".png"), found)


def _plot(path: Path, found: Found) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
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
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)
