"""The results of a benchmark in one style: the table on the terminal, and JSON, a page and a plot that are kept."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asked
import lines as measured
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lines import Line
    from matplotlib.axes import Axes

Ratios = dict[str, float]
WORDS = ("measured", "unit", "goal", "why")
"""Headings of columns of text; the others hold numbers, and align right."""


@dataclass
class Section:
    """A table of a page, with a title of its own if there are several."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()
    """Sentences after the table."""

    @classmethod
    def of(cls, lines: Iterable[Line], title: str = "") -> Section:
        """Return the table of lines."""
        listed = list(lines)
        return cls(measured.headings(listed), measured.cells(listed), title)


@dataclass
class Report:
    """The results of a benchmark."""

    name: str
    """The benchmark's: `store` is that of `make bench-store`."""
    title: str
    about: Mapping[str, Any]
    """The machine, the versions and the amount, see `machine.environment`."""
    counted: Sequence[str]
    """Sentences on what is counted; one that goes on begins with a space."""
    lines: Mapping[str, Line]
    sections: Sequence[Section]
    ratios: Sequence[Ratios]
    """The lines of ratios; the last one ends the output."""
    draw: Callable[[Path], None] | None = None
    """Draws the plot into a file."""
    picture: str = "ratios"
    """The subject of the plot."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the JSON."""

    def publish(self) -> None:
        """Print and save everything; the last line of the output is that of ratios."""
        self._print()
        stem = asked.results_folder() / f"{self.name}-{self.about['cores']}c"
        stem.parent.mkdir(parents=True, exist_ok=True)
        stem.with_suffix(".json").write_text(self._json())
        if self.draw is not None:
            self.draw(stem.with_suffix(".png"))
        stem.with_suffix(".md").write_text(self._page(stem.name))
        for ratios in self.ratios:
            print(ratio_line(ratios))

    def _print(self) -> None:
        console = Console(width=max(140, Console().width))
        for sentence in self.counted:
            console.print(sentence if sentence.startswith(" ") else f"- {sentence}", highlight=False)
        for section in self.sections:
            made = Table(title=section.title or self.title)
            for heading in section.headings:
                made.add_column(heading, justify="left" if heading in WORDS else "right")
            for row in section.rows:
                made.add_row(*row)
            console.print(made)
            for note in section.notes:
                console.print(note, highlight=False)

    def _json(self) -> str:
        ratios = {name: None if math.isnan(value) else value for found in self.ratios for name, value in found.items()}
        lines = {key: line.as_json() for key, line in self.lines.items()}
        content = {**self.about, "counted": self.counted, "ratios": ratios, "lines": lines, **self.details}
        return json.dumps(content, indent=2) + "\n"

    def _page(self, stem: str) -> str:
        text = [f"# {self.title}", "", *(f"- {name}: {value}" for name, value in self.about.items())]
        text += ["", "What is counted:", ""]
        text += [sentence if sentence.startswith(" ") else f"- {sentence}" for sentence in self.counted]
        text += [""]
        for section in self.sections:
            text += [f"## {section.title}", ""] if section.title else []
            text += [
                f"| {' | '.join(section.headings)} |",
                f"|{'|'.join('---' if heading in WORDS else '--:' for heading in section.headings)}|",
                *(f"| {' | '.join(row)} |" for row in section.rows),
                "",
            ]
            text += [*section.notes, ""] if section.notes else []
        for ratios in self.ratios:
            text += [f"`{ratio_line(ratios)}`", ""]
        text += [f"![{self.picture}]({stem}.png)", ""] if self.draw is not None else []
        return "\n".join(text)


def ratio_line(ratios: Ratios) -> str:
    """The line that ends a benchmark's output."""
    return "ratio " + " ".join(f"{name}={value:.2f}" for name, value in ratios.items())


@contextmanager
def plot(path: Path, columns: int = 1, rows: int = 1, size: tuple[float, float] = (11, 4.5)) -> Iterator[list[Axes]]:
    """Yield the axes of a figure, row by row, which is written to a file afterwards."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    yield list(axes.flat)
    for one in axes.flat:
        one.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_ratios(axes: Axes, lines: Mapping[str, Line], title: str = "reput over RocketMQ") -> None:
    """Draw the ratios of lines as bars, with the spread of the rounds, and a line where both sides are equal."""
    shown = {name: line for name, line in lines.items() if not math.isnan(line.ratio)}
    spreads = [line.ratio_spread for line in shown.values()]
    middles = [one.median for one in spreads]
    below = [max(0.0, one.median - one.least) for one in spreads]
    above = [max(0.0, one.most - one.median) for one in spreads]
    axes.barh(list(shown), middles, xerr=(below, above), color="tab:orange", error_kw={"ecolor": "0.3", "capsize": 2})
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.invert_yaxis()
    for place, one in enumerate(spreads):
        axes.text(one.most, place, f" {one.median:.2f}", va="center")
    axes.set_title(title)
