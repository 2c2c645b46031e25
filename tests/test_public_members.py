"""The members of the public classes: none goes without a word."""

from __future__ import annotations

import enum
from pathlib import Path

import reput

LIST = Path(__file__).with_suffix(".txt")
_INHERITED = (object, BaseException, tuple, enum.Enum)


def members() -> list[str]:
    """Return each public member of each public class, as `Class.member`."""
    found = []
    for name in reput.__all__:
        value = getattr(reput, name)
        if isinstance(value, type):
            of_others = {member for one in _INHERITED for member in dir(one)}
            found += [f"{name}.{one}" for one in dir(value) if not one.startswith("_") and one not in of_others]
    return found


def test_the_list_of_public_members_is_exact() -> None:
    """A member that goes breaks programs: keep an alias for a version, or say so in CHANGELOG.md, and mend the list."""
    listed = LIST.read_text("utf-8").split()
    assert members() == listed
