"""Suggestions for a mistyped name: the end of an error about an unknown name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_NAMES_SHOWN = 20
FEW = 5
"""The most names in the text of a finding or a note."""
_NEAR = 3
_SERIES = 4
"""The number of names that differ only in their numbers from which on a text names only the first and the last."""
_NUMBER = re.compile(r"[0-9]+")
_NEEDS_QUOTES = re.compile(r"[\s,'\"]|\A\Z")


def similar(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that are closest to `name`, the closest first; empty if no name is close."""
    return [found for series in _near_series(name, names) for found in _closest_first(name, series)][:_NEAR]


def near(name: str, names: Sequence[str]) -> str:
    """Return a sentence with the names that are close to `name`, or with the known names if none is close."""
    return near_it(name, names) or (f"There are: {some(names)}" if names else "There are none")


def near_it(name: str, names: Sequence[str]) -> str:
    """Return a sentence with the names that are close to `name`; "" if no name is close."""
    texts: list[str] = []
    for series in _near_series(name, names):
        same = [quoted(found) for found in series if _numbers(found) == _numbers(name)]
        texts += same or _in_short(series)
    return f"Near it: {', '.join(texts)}" if texts else ""


def unknown_topic(where: object, topic: str, names: Sequence[str]) -> str:
    """Return the text of an error about a topic that the store in `where` does not have."""
    return f"{where}: no topic {quoted(topic)}. {near(topic, names)}"


def some(names: Sequence[str], shown_most: int = _NAMES_SHOWN) -> str:
    """List the first names, and the number of the others. If there are too many, a series counts as one name."""
    texts = [quoted(name) for name in names]
    if len(names) > shown_most:
        texts = [text for series in _series_of(names) for text in _in_short(series)]
    more = f" and {len(texts) - shown_most} more" if len(texts) > shown_most else ""
    return (", ".join(texts[:shown_most]) or "none") + more


def quoted(name: str) -> str:
    """Return a name for a sentence, in quotes if it has blanks or characters that cannot be seen."""
    return repr(name) if _NEEDS_QUOTES.search(name) or not name.isprintable() else name


def _near_series(name: str, names: Sequence[str]) -> list[list[str]]:
    """Return series of names that are close to `name`, closest first. In a series only the numbers differ."""
    by_form: dict[str, list[list[str]]] = {}
    for series in _series_of(names):
        by_form.setdefault(_form(series[0]), []).append(series)
    forms = difflib.get_close_matches(_form(name), by_form, _NEAR)
    return [series for form in forms for series in by_form[form]][:_NEAR]


def _form(name: str) -> str:
    """Return a name without capitals, blanks, underscores and numbers, which are mistyped most."""
    return _NUMBER.sub("0", "".join(name.casefold().replace("_", " ").split()))


def _series_of(names: Iterable[str]) -> list[list[str]]:
    """Group the names that differ only in their numbers. A name that is a number is a series of its own."""
    series: dict[str, list[str]] = {}
    for name in names:
        key = name if name.isdecimal() else _NUMBER.sub("0", name)
        series.setdefault(key, []).append(name)
    return [sorted(dict.fromkeys(found), key=_numbers) for found in series.values()]


def _numbers(name: str) -> list[int]:
    # A longer number is no counter, and Python refuses very long ones.
    return [int(number[:18]) for number in _NUMBER.findall(name)]


def _closest_first(name: str, series: list[str]) -> list[str]:
    wanted = _numbers(name)
    return sorted(series, key=lambda found: _numbers(found) != wanted)


def _in_short(series: list[str]) -> list[str]:
    if len(series) < _SERIES:
        return [quoted(name) for name in series]
    return [f"{quoted(series[0])} to {quoted(series[-1])} ({len(series)} names)"]
