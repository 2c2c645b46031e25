"""Damages every class of field of a store, and counts the outcomes."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from support.damage.judge import Damage, Judge, Judged, cut, file_kind, flipped, misread
from support.damage.places import places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.damage.judge import Outcome
    from support.damage.places import Place
    from support.damage.stores import Subject

Row = tuple[str, str]
Counts = dict[Row, "Counter[Outcome]"]
Reads = dict[str, "Counter[str]"]
"""By kind of file, how reads of a wrong sector ended."""


class Tries(NamedTuple):
    """The number of damages: changes and cuts of each class of field, and misread sectors of each kind of file."""

    flips: int
    cuts: int
    misreads: int


class Tried(NamedTuple):
    """A damage and its outcome."""

    damage: Damage
    judged: Judged


def classes(subject: Subject) -> dict[Row, list[Place]]:
    """Return the places of a store by class: their kind and their field."""
    found: dict[Row, list[Place]] = defaultdict(list)
    for place in places(subject.path, subject.slots):
        found[place.kind, place.field].append(place)
    return dict(found)


def damages(subject: Subject, flips: int, cuts: int, seed: int) -> Iterator[Damage]:
    """Yield `flips` changes of each class of field, and `cuts` cuts of files in it; always the same for a seed."""
    for row, found in classes(subject).items():
        chance = random.Random(f"{seed} {row}")
        for _ in range(flips):
            yield flipped(chance.choice(found), chance)
        for _ in range(cuts):
            yield cut(chance.choice(found))


def misreads(subject: Subject, count: int, seed: int) -> Iterator[Damage]:
    """Yield `count` reads of a wrong sector of each kind of file that has data; always the same for a seed."""
    files: dict[str, dict[Path, None]] = defaultdict(dict)
    for place in places(subject.path, subject.slots):
        files[file_kind(place)][place.path] = None
    every = [path for found in files.values() for path in found]
    for kind, found in files.items():
        chance = random.Random(f"{seed} {kind}")
        for _ in range(count):
            one = misread(kind, list(found), every, chance)
            if one is not None:
                yield one


def sweep(subject: Subject, tries: Tries, seed: int) -> Iterator[Tried]:
    """Try these damages one by one."""
    judge = Judge(subject)
    for one in (*damages(subject, tries.flips, tries.cuts, seed), *misreads(subject, tries.misreads, seed)):
        yield Tried(one, judge.judge(one))
