"""Names that come close to a mistyped one, and what else there is: the end of an error about an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_NAMES_SHOWN = 20
_NEAR = 3


def similar(name: str, names: Sequence[str]) -> list[str]:
    """The names that come closest to `name`, the closest first; empty if none is like it."""
    return difflib.get_close_matches(name, names, _NEAR)


def near(name: str, names: Sequence[str]) -> str:
    """A sentence with the names that come close to `name`, or else with those that there are."""
    found = similar(name, names)
    return f"Near it: {', '.join(found)}" if found else f"There are: {some(names)}"


def some(names: Sequence[str], shown: int = _NAMES_SHOWN) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return (", ".join(names[:shown]) or "none") + more
