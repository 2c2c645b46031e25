"""One damaged field of a store: never a wrong answer that nobody reports. `make damage` tries many more."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from reput.formats import paths
from support import golden
from support.damage import places
from support.damage.judge import Damage, Judge, Outcome, cut, flipped
from support.damage.page import PAGE
from support.damage.places import Place
from support.damage.stores import NAMES, OURS, Subject, subject
from support.damage.sweep import classes, damages, misreads

if TYPE_CHECKING:
    from pathlib import Path

TRIED = 5
"""Damages of each store in `make test`."""
STORES = ("basic", "ext", "batch", "rocksdb", OURS)


@pytest.mark.parametrize("name", STORES)
def test_no_damage_gives_a_wrong_answer(name: str, tmp_path: Path) -> None:
    """Fields, changed or cut, and wrong sectors: the store says so, or answers right, or the value is nowhere else."""
    found = subject(name, tmp_path)
    judge = Judge(found)
    chance = random.Random(name)
    tried = [*chance.sample(list(damages(found, 1, 1, seed=7)), TRIED), chance.choice(list(misreads(found, 1, seed=7)))]
    for one in tried:
        judged = judge.judge(one)
        assert judged.outcome is not Outcome.WRONG, f"{one}: {judged.detail}"


def test_a_store_is_whole_again_after_a_damage(tmp_path: Path) -> None:
    """Neither a change nor a cut outlives its judgement."""
    found = subject(OURS, tmp_path)
    judge, whole = Judge(found), {path: path.read_bytes() for path in found.path.rglob("*") if path.is_file()}
    place = next(one for one in places.places(found.path, found.slots) if one.field == "physical_offset")
    for one in (flipped(place, random.Random(1)), cut(place)):
        assert judge.judge(one).outcome in {Outcome.REFUSED, Outcome.AT_READ, Outcome.BY_CHECK}
    assert {path: path.read_bytes() for path in found.path.rglob("*") if path.is_file()} == whole


def test_a_wrong_answer_is_seen(tmp_path: Path) -> None:
    """A value that no other place has is returned as stored; under the name of another field it is a wrong answer."""
    found = subject("basic", tmp_path)
    judge = Judge(found)
    flag = next(one for one in places.places(found.path, found.slots) if one.field == "flag")
    assert judge.judge(Damage(flag, flag.offset, b"\1\1\1\1")).outcome is Outcome.AS_STORED
    other = flag._replace(field="born_timestamp")
    assert judge.judge(Damage(other, flag.offset, b"\1\1\1\1")).outcome is Outcome.WRONG


@pytest.mark.golden
@pytest.mark.parametrize("name", ["basic", "ext", "batch", "rocksdb"])
def test_places_cover_each_byte_once(name: str) -> None:
    """The fields of a file, by the layouts, lie side by side from its first byte to its last."""
    by_file: dict[Path, list[Place]] = defaultdict(list)
    store = golden.shared(name)
    for place in places.places(store, golden.INDEX_SLOTS):
        by_file[place.path].append(place)
    assert {path.parts[len(store.parts)] for path in by_file} >= {paths.COMMIT_LOG, paths.INDEX, paths.CHECKPOINT}
    for path, found in by_file.items():
        if path.read_bytes()[:1] == b"{":
            # JSON, whose white space belongs to no field.
            continue
        end = 0
        for place in sorted(found, key=lambda one: one.offset):
            assert place.offset == end, f"{path}: {place}"
            end += place.size
        assert end == path.stat().st_size, path


def test_the_page_has_every_class_of_field(tmp_path: Path) -> None:
    """docs/damage.md has a row for each class of field of these stores."""
    text = PAGE.read_text("utf-8")
    for name in NAMES:
        found = subject(name, tmp_path) if name == OURS else Subject(golden.shared(name), None, golden.INDEX_SLOTS)
        for kind, field in classes(found):
            section = text.partition(f"\n## {kind[0].upper()}{kind[1:]}\n")[2].partition("\n## ")[0]
            assert f"\n| {field} |" in section, f"{kind}: {field} has no row: `make damage` writes the page"
