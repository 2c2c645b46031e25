"""The page `/metrics` of a broker, sample by sample."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.request import urlopen

if TYPE_CHECKING:
    import reput

_LINE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


class Page(NamedTuple):
    """The samples of a page: name, labels and value; and the kind of each metric."""

    samples: list[tuple[str, dict[str, str], float]]
    kinds: dict[str, str]

    @classmethod
    def of(cls, broker: reput.RunningBroker) -> Self:
        """Ask a broker."""
        return cls.at(f"http://{broker.metrics_address}/metrics")

    @classmethod
    def at(cls, url: str) -> Self:
        """Ask an address."""
        with urlopen(url, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        found = [one for one in map(_LINE.fullmatch, lines) if one is not None]
        kinds = dict(line.split(" ")[2:4] for line in lines if line.startswith("# TYPE"))
        return cls(
            [(one["name"], dict(_LABEL.findall(one["labels"] or "")), float(one["value"])) for one in found], kinds
        )

    def get(self, name: str, **labels: str) -> float | None:
        """Return the value of a sample that has these labels; None if there is none."""
        found = [value for own, has, value in self.samples if own == name and labels.items() <= has.items()]
        assert len(found) < 2, (name, labels)
        return found[0] if found else None

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a sample that must be there."""
        value = self.get(name, **labels)
        assert value is not None, (name, labels, [one for one in self.samples if one[0] == name])
        return value
