"""Lines of measured values, one a round and side, with their medians, spreads and ratios."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LESS_IS_BETTER = ("s", "ms", "us", "GiB", "MiB")
"""Units of which the side with the smaller value is ahead. Of all others, rates above all, more is better."""


class Spread(NamedTuple):
    """The median of some values, with the smallest and the largest."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of values; without values all three are NaN."""
        if not values:
            return cls(math.nan, math.nan, math.nan)
        return cls(statistics.median(values), min(values), max(values))


@dataclass
class Line:
    """One thing measured: a value for each round, of reput, of RocketMQ and of others that do the same."""

    name: str
    unit: str
    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    others: dict[str, list[float]] = field(default_factory=dict)
    """The values of further sides, by name."""
    against: str = ""
    """The further side that reput is compared with, where RocketMQ has no such work."""

    @property
    def median(self) -> float:
        """The median of reput."""
        return Spread.of(self.ours).median

    @property
    def peer_median(self) -> float:
        """The median of the peer."""
        return Spread.of(self.peer).median

    @property
    def beside(self) -> list[float]:
        """The values that reput's are compared with: the peer's, or those of the side that the line names."""
        return self.others.get(self.against, []) if self.against else self.peer

    @property
    def ratio(self) -> float:
        """The lead of reput over the side beside it, by the medians: 2 is twice as fast, or half as long."""
        return self._ahead(self.median, Spread.of(self.beside).median)

    @property
    def ratio_spread(self) -> Spread:
        """The ratio by the medians, with the smallest and the largest of one round.

        Without a spread if a round lacks a side: the values that are left do not say of which rounds they are.
        """
        pairs = zip(self.ours, self.beside, strict=True) if len(self.ours) == len(self.beside) else ()
        rounds = [self._ahead(mine, theirs) for mine, theirs in pairs]
        return Spread.of(rounds)._replace(median=self.ratio)

    def _ahead(self, mine: float, theirs: float) -> float:
        above, below = (theirs, mine) if self.unit in LESS_IS_BETTER else (mine, theirs)
        return above / below if below else math.nan

    def as_json(self) -> dict[str, Any]:
        """The values of all rounds, and what follows from them."""
        values = {name: getattr(self, name) for name in ("name", "unit", "ours", "peer", "others")}
        values |= {"against": self.against} if self.against else {}
        found = {name: value for name, value in self.ratio_spread._asdict().items() if not math.isnan(value)}
        ratio = {"ratio": found} if found else {}
        return {**values, **ratio}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Line:
        """Return the line that `as_json` has written."""
        named = ("name", "unit", "ours", "peer", "others", "against")
        return cls(**{name: values[name] for name in named if name in values})


UNITS = {"_rate": "messages/s", "_us": "us", "_ms": "ms", "_mib": "MiB", "_s": "s"}
"""The unit of what is measured, by the end of its name."""


def keep(lines: dict[str, Line], values: Mapping[str, float], *, is_peer: bool) -> None:
    """Add what one round of one side has measured to the lines of these names."""
    for name, value in values.items():
        line = lines.setdefault(name, Line(name, next(UNITS[end] for end in UNITS if name.endswith(end))))
        (line.peer if is_peer else line.ours).append(value)


def headings(lines: Sequence[Line]) -> list[str]:
    """The headings of the columns of `cells`."""
    sides = [heading for side in ("RocketMQ", *_others(lines), "reput") for heading in (side, "its rounds")]
    return ["measured", "unit", *sides, "x", "x of the rounds"]


def cells(lines: Sequence[Line]) -> list[list[str]]:
    """The table of lines, one row a line: median and spread of every side, and the ratio with its spread."""
    others = _others(lines)
    rows = []
    for line in lines:
        sides = (line.peer, *(line.others.get(name, []) for name in others), line.ours)
        shown = [cell for side in map(Spread.of, sides) for cell in (number(side.median), spread(side))]
        rows.append([line.name, line.unit, *shown, ratio(line.ratio), spread(line.ratio_spread, of=ratio)])
    return rows


def _others(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(name for line in lines for name in line.others))


def number(value: float) -> str:
    """A measured value as a table shows it."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def ratio(value: float) -> str:
    """A ratio as a table shows it."""
    return "-" if math.isnan(value) else f"{value:.2f}"


def spread(value: Spread, of: Any = number) -> str:
    """A spread as a table shows it."""
    return "-" if math.isnan(value.least) else f"{of(value.least)} to {of(value.most)}"
