"""Names that come close to a mistyped one, and what else there is: the end of an error about an unknown name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_NAMES_SHOWN = 20
_NEAR = 3
_SERIES = 4
"""From so many names on that differ in their numbers alone, a text names only the first and the last."""
_NUMBER = re.compile(r"[0-9]+")
_NEEDS_QUOTES = re.compile(r"[\s,'\"]|\A\Z")


def similar(name: str, names: Sequence[str]) -> list[str]:
    """The names that come closest to `name`, the closest first; empty if none is like it."""
    return [found for series in _near_series(name, names) for found in _closest_first(name, series)][:_NEAR]


def near(name: str, names: Sequence[str]) -> str:
    """A sentence with the names that come close to `name`, or else with those that there are."""
    return near_it(name, names) or f"There are: {some(names)}"


def near_it(name: str, names: Sequence[str]) -> str:
    """A sentence with the names that come close to `name`; "" if none is like it."""
    told: list[str] = []
    for series in _near_series(name, names):
        same = [quoted(found) for found in series if _numbers(found) == _numbers(name)]
        told += same or _in_short(series)
    return f"Near it: {', '.join(told)}" if told else ""


def unknown_topic(where: object, topic: str, names: Sequence[str]) -> str:
    """The text of an error about a topic that the store in `where` does not have."""
    return f"{where}: no topic {quoted(topic)}. {near(topic, names)}"


def some(names: Sequence[str], shown_most: int = _NAMES_SHOWN) -> str:
    """The first names, and how many more there are. If they are too many, names in a series count as one."""
    told = [quoted(name) for name in names]
    if len(names) > shown_most:
        told = [text for series in _series_of(names) for text in _in_short(series)]
    more = f" and {len(told) - shown_most} more" if len(told) > shown_most else ""
    return (", ".join(told[:shown_most]) or "none") + more


def quoted(name: str) -> str:
    """A name in a sentence: in quotes where it would not be seen whole without."""
    return repr(name) if _NEEDS_QUOTES.search(name) or not name.isprintable() else name


def _near_series(name: str, names: Sequence[str]) -> list[list[str]]:
    """The names that are like `name`, closest first; those that differ in their numbers alone are one series."""
    by_form: dict[str, list[list[str]]] = {}
    for series in _series_of(names):
        by_form.setdefault(_form(series[0]), []).append(series)
    forms = difflib.get_close_matches(_form(name), by_form, _NEAR)
    return [series for form in forms for series in by_form[form]][:_NEAR]


def _form(name: str) -> str:
    """A name without what people mistype most: capitals, blanks, underscores, and the number in a series."""
    return _NUMBER.sub("0", "".join(name.casefold().replace("_", " ").split()))


def _series_of(names: Iterable[str]) -> list[list[str]]:
    """The names with those that differ in their numbers alone together; names that are numbers stay apart."""
    series: dict[str, list[str]] = {}
    for name in names:
        key = name if name.isdecimal() else _NUMBER.sub("0", name)
        series.setdefault(key, []).append(name)
    return [sorted(dict.fromkeys(found), key=_numbers) for found in series.values()]


def _numbers(name: str) -> list[int]:
    # Longer ones are no counters, and Python refuses to read very long ones.
    return [int(number[:18]) for number in _NUMBER.findall(name)]


def _closest_first(name: str, series: list[str]) -> list[str]:
    wanted = _numbers(name)
    return sorted(series, key=lambda found: _numbers(found) != wanted)


def _in_short(series: list[str]) -> list[str]:
    if len(series) < _SERIES:
        return [quoted(name) for name in series]
    return [f"{quoted(series[0])} to {quoted(series[-1])} ({len(series)} names)"]
