"""Damages every class of field of a store, and counts the outcomes."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from support.damage.judge import Damage, Judge, Judged, cut, flipped
from support.damage.places import places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.damage.judge import Outcome
    from support.damage.places import Place
    from support.damage.stores import Subject

Row = tuple[str, str]
Counts = dict[Row, "Counter[Outcome]"]


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


def sweep(subject: Subject, flips: int, cuts: int, seed: int) -> Iterator[Tried]:
    """Try these damages one by one."""
    judge = Judge(subject)
    for one in damages(subject, flips, cuts, seed):
        yield Tried(one, judge.judge(one))
