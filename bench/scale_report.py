"""The results of the scale benchmark: the measured values, the model of their cost, and its word on one more store."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from lines import number
from report import Report, Section, plot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

GIB = 1 << 30
COUNTED = (
    "Works in one Spark session on all cores that has done them on a small store; the start of Spark is not in them.",
    "rebuild, check: `reput.rebuild`, `reput.check`. scan: one column of all messages through Spark. open: a store,",
    "    and one message of it. follow: both indexes of a log without any (`reput.follow(until_caught_up=True)`).",
    "Seconds: median of the rounds, with what the page cache holds. Read: what the disk gave when the cache held",
    "    nothing; of stores with one round, what it gave in that.",
    "Memory: the most that the driver, its Java and all workers of Python held at once, each; PSS, sampled.",
    "Model: seconds = a fixed part + parts for each GiB of log, million messages, thousand queues and task. The fit",
    "    takes the least squares of relative errors, of all stores but the largest; parts below zero are left out.",
)
TERMS = ("fixed", "GiB of log", "million messages", "thousand queues", "task")


@dataclass(frozen=True)
class Case:
    """A store to measure on."""

    messages: int
    queues: int
    body_bytes: int
    split_mb: int

    def __str__(self) -> str:
        """The name in a table."""
        return f"{self.messages:,} of {self.body_bytes} bytes in {self.queues:,}, splits of {self.split_mb} MiB"


@dataclass
class Measured:
    """Seconds, memory and bytes read of each work on a store."""

    case: Case
    log_bytes: int
    splits: int
    works: Mapping[str, Sequence[Mapping[str, Any]]]
    """By work: `seconds`, `warm`, `read_bytes` and the bytes of each role (`driver_bytes`, ...), one for each turn."""

    def seconds(self, work: str) -> float:
        """The median of the rounds with a warm page cache; NaN without any."""
        found = [turn["seconds"] for turn in self.works[work] if turn["warm"]]
        return float(statistics.median(found)) if found else math.nan

    def most(self, work: str, name: str) -> float:
        """The largest value of any turn; NaN without any."""
        return float(max((turn.get(name, 0) for turn in self.works[work]), default=math.nan))

    @property
    def amounts(self) -> list[float]:
        """The amounts that the terms of the model count."""
        case = self.case
        return [1.0, self.log_bytes / GIB, case.messages / 1e6, case.queues / 1e3, float(self.splits)]


@dataclass
class Model:
    """The seconds of a work as a sum of parts."""

    parts: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(TERMS)))

    def seconds(self, measured: Measured) -> float:
        """The model's word on a store."""
        return float(np.dot(self.parts, measured.amounts))

    @classmethod
    def fit(cls, work: str, seen: Sequence[Measured]) -> Model:
        """Fit the parts to the stores; a part that would be negative is left out, the most negative first."""
        seen = [one for one in seen if not math.isnan(one.seconds(work))]
        took = np.array([one.seconds(work) for one in seen])
        amounts = np.array([one.amounts for one in seen]) / took[:, None]
        kept = list(range(len(TERMS)))
        while kept:
            found = np.linalg.lstsq(amounts[:, kept], np.ones(len(seen)), rcond=None)[0]
            if found.min() >= 0:
                break
            kept.pop(int(found.argmin()))
        model = cls()
        model.parts[kept] = found
        return model


def report(about: Mapping[str, Any], measured: Sequence[Measured], driver: Mapping[str, Any]) -> Report:
    """The report on all stores."""
    held_out = max(measured, key=lambda one: one.case.messages)
    seen = [one for one in measured if one is not held_out]
    works = list(held_out.works)
    models = {work: Model.fit(work, seen) for work in works}
    ratios = {work: held_out.seconds(work) / models[work].seconds(held_out) for work in works}
    sections = [
        Section(("store", *works), [[str(one.case), *_seconds(one)] for one in measured], "Seconds"),
        Section(("store", *works), [[str(one.case), *_read(one)] for one in measured], "Read from the disk (GiB)"),
        Section(("store", *works), [[str(one.case), *_memory(one)] for one in measured], MEMORY),
        Section(("work", *TERMS, "on the largest", "measured"), _fitted(models, held_out), "Model (seconds for each)"),
        Section(("driver", "value"), _driver(driver), "A driver without a log"),
    ]
    details = {
        "stores": [vars(one.case) | vars(one) | {"case": str(one.case)} for one in measured],
        "model": {work: dict(zip(TERMS, model.parts.tolist(), strict=True)) for work, model in models.items()},
        "driver": dict(driver),
    }
    draw = partial(_draw, measured=measured, works=works)
    title = "How cost grows"
    return Report("scale", title, about, COUNTED, {}, sections, [ratios], draw, "seconds by messages", details)


MEMORY = "Memory: driver, its Java, workers (MiB)"


def _seconds(one: Measured) -> list[str]:
    return [number(one.seconds(work)) for work in one.works]


def _read(one: Measured) -> list[str]:
    return [number(one.most(work, "read_bytes") / GIB) for work in one.works]


def _memory(one: Measured) -> list[str]:
    roles = ("driver_bytes", "java_bytes", "workers_bytes")
    return [
        " / ".join(f"{one.most(work, role) / 2**20:,.0f}" for role in roles) if one.works[work] else "-"
        for work in one.works
    ]


def _fitted(models: Mapping[str, Model], held_out: Measured) -> list[list[str]]:
    rows = []
    for work, model in models.items():
        parts = [f"{part:.3f}" for part in model.parts]
        rows.append([work, *parts, number(model.seconds(held_out)), number(held_out.seconds(work))])
    return rows


def _driver(driver: Mapping[str, Any]) -> list[list[str]]:
    merged = f"{driver['merge_rows']:,} ranges of {driver['queues']:,} queues"
    return [
        [f"stitch {driver['splits']:,} splits (s)", number(driver["stitch_seconds"])],
        ["splits and results in memory (MiB)", number(driver["stitch_bytes"] / 2**20)],
        [f"merge {merged} (s)", number(driver["merge_seconds"])],
        ["merged queues in memory (MiB)", number(driver["merge_bytes"] / 2**20)],
        ["the most memory (MiB)", number(driver["peak_bytes"] / 2**20)],
    ]


def _draw(path: Path, measured: Sequence[Measured], works: Sequence[str]) -> None:
    first = measured[0].case
    sizes = [one for one in measured if (one.case.queues, one.case.split_mb) == (first.queues, first.split_mb)]
    sizes = [one for one in sizes if one.case.body_bytes == first.body_bytes]
    with plot(path, size=(8, 4.5)) as (axes,):
        for work in works:
            axes.plot(
                [one.case.messages / 1e6 for one in sizes], [one.seconds(work) for one in sizes], "o-", label=work
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("million messages")
        axes.set_ylabel("seconds")
        axes.legend()
