"""The marks of the index database that are missing or wrong: info and check say the same of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.formats import paths
from reput.formats.index import index_database as fmt
from support import golden
from support.checked import assert_sound, rules_of
from tests.formats.index.test_index_entry_keys import given_by_log
from tests.pipeline.build.index.test_database import ALONE, change, families

if TYPE_CHECKING:
    from pathlib import Path

    from reput.store.info.values import StoreInfo

pytestmark = pytest.mark.golden


def of_index(info: StoreInfo) -> tuple[list[str], list[str]]:
    """The lines of `info` about the index: those that are out of date, and damage."""
    return [one for one in info.out_of_date if "index" in one], [one for one in info.damage if "rocksdbstore" in one]


def put_one(store: Path) -> list[str]:
    """Open a store, put a message with keys, and close it with its indexes; returns the notes of the opening."""
    with reput.MessageStore.open(store) as opened:
        opened.put_message(reput.Message("orders", b"new", keys="new", unique_key="7F01"), queue_id=0)
        opened.reput(spark=False)
        return list(opened.notes)


@pytest.mark.parametrize("mark", [b"abc", b"", bytes(9), fmt.encode_mark(-5)])
@pytest.mark.parametrize("name", fmt.MARKS)
def test_a_mark_that_is_no_number_had_no_words(name: bytes, mark: bytes, tmp_path: Path) -> None:
    """Info and check name it as damage with the remedy, which helps, and call nothing out of date."""
    store = golden.unpack(ALONE, tmp_path)
    wanted = families(store)
    change(store, put={name: mark})
    out_of_date, damage = of_index(reput.info(store))
    assert not out_of_date
    assert len(damage) == 1
    assert f"the mark {name.decode()} " in damage[0]
    assert "`reput rebuild --only index`" in damage[0]
    assert rules_of(store) == {("damage", "index-mark-wrong"): 1}
    reput.rebuild(store, only="index", spark=False)
    assert families(store) == wanted
    assert_sound(store)


@pytest.mark.parametrize("mark", [None, 300_000, 0])
def test_a_mark_that_is_missing_or_too_low_hid_the_entries(mark: int | None, tmp_path: Path) -> None:
    """The entries say how far the database goes: info and check find nothing, and the next job writes the mark."""
    store = golden.unpack(ALONE, tmp_path)
    last = reput.info(store).index_database
    if mark is None:
        change(store, drop=[*fmt.MARKS])
    else:
        change(store, put={fmt.LAST_OFFSET: fmt.encode_mark(mark)})
    info = reput.info(store)
    assert info.index_database == last
    assert of_index(info) == ([], [])
    assert_sound(store)
    put_one(store)
    assert families(store)[fmt.FAMILY] == given_by_log(store)
    assert_sound(store)


def test_entries_that_are_missing_beside_a_missing_mark(tmp_path: Path) -> None:
    """Holes below the last entry are damage, keys above it are not there yet; after a crash all may still come."""
    store = golden.unpack(ALONE, tmp_path)
    keys = sorted((key for key in families(store)[fmt.FAMILY] if key not in fmt.MARKS), key=fmt.offset_of)
    end = fmt.offset_of(keys[-30])
    late = [key for key in keys if fmt.offset_of(key) > end]
    change(store, drop=[*fmt.MARKS, *late, *keys[500:503]])
    assert rules_of(store) == {
        ("damage", "index-key-missing"): 3,
        ("damage", "index-database-out-of-date"): len(late),
    }
    (out_of_date,), damage = of_index(reput.info(store))
    assert f"ends with the record at log offset {end}" in out_of_date
    assert not damage
    (store / paths.ABORT).touch()
    assert rules_of(store) == {("leftover", "index-database-out-of-date"): len(late) + 3}
    put_one(store)
    assert families(store)[fmt.FAMILY] == given_by_log(store)
    assert_sound(store)
