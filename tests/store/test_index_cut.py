"""An opening to write cuts the index database at the log's end: what a crash took from the log has no entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import DamagedStoreError
from reput.files.database_owner import DatabaseOwner
from reput.formats import paths
from reput.formats.index import index_database as fmt
from reput.index import database, database_cut
from reput.log.read.files import list_log_files
from reput.log.read.scan import LogWalk
from support import golden
from support.checked import assert_sound, rules_of
from support.killed import Killed
from tests.formats.index.test_index_entry_keys import given_by_log
from tests.pipeline.build.index.test_database import ALONE, BOTH, change, families
from tests.store.test_index_marks import of_index, put_one

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.golden
FAR = 30_000_000
"""A log offset far above the log's end."""
LOST = 10
"""The records that a crash takes from the log's end."""


def crash(store: Path) -> int:
    """Zero the last records of a log, as a crash that took them leaves it; returns where the log ends now."""
    log = list_log_files(store / paths.COMMIT_LOG)
    end = [one.offset for one in LogWalk(log, log.min_offset)][-LOST]
    file = next(one for one in log.files if one.start <= end < one.start + one.size)
    with file.path.open("r+b") as opened:
        opened.seek(end - file.start)
        opened.write(bytes(file.size - (end - file.start)))
    (store / paths.ABORT).touch()
    return end


def test_a_mark_far_above_the_log_stayed_after_a_put(tmp_path: Path) -> None:
    """Info and check name a mark above the log's end, and the next writer lowers it to the last entry."""
    store = golden.unpack(ALONE, tmp_path)
    change(store, put={fmt.LAST_OFFSET: fmt.encode_mark(FAR)})
    out_of_date, (damage,) = of_index(reput.info(store))
    assert not out_of_date
    assert f"the mark lastOffsetPy is {FAR}, and the log ends at" in damage
    assert rules_of(store) == {("damage", "index-mark-wrong"): 1}
    notes = put_one(store)
    assert [note for note in notes if "rocksdbstore: it named records above the log's end" in note]
    assert families(store)[fmt.FAMILY] == given_by_log(store)
    assert_sound(store)
    assert of_index(reput.info(store)) == ([], [])


def test_an_index_that_cannot_be_cut_stops_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its damage is a note: the log and the queues are cut all the same, and messages are put."""
    store = golden.unpack(ALONE, tmp_path)
    end = crash(store)

    def unreadable(*_: object) -> int:
        raise DamagedStoreError("a block of its entries is damaged")

    monkeypatch.setattr(database, "cut_entries", unreadable)
    with reput.MessageStore.open(store, create=True) as opened:
        assert "a block of its entries is damaged" in opened.notes
        assert opened.put_message(reput.Message("orders", b"next")).physical_offset == end


@pytest.mark.parametrize("name", [ALONE, BOTH])
def test_an_opening_after_a_crash_left_entries_of_lost_records(name: str, tmp_path: Path) -> None:
    """Entries of lost records are a leftover of the crash before an opening, and after it there are none."""
    store = golden.unpack(name, tmp_path)
    end = crash(store)
    found = rules_of(store)
    assert ("leftover", "index-key-past-end") in found
    assert ("leftover", "index-mark-wrong") in found
    assert not [rule for severity, rule in found if severity == "damage"]
    out_of_date, damage = of_index(reput.info(store))
    assert [one for one in out_of_date if "the mark lastOffsetPy is" in one]
    assert not damage
    notes = put_one(store)
    assert [note for note in notes if f"above the log's end at {end}" in note and "rocksdbstore" in note]
    assert_sound(store)
    assert families(store)[fmt.FAMILY] == given_by_log(store)


def test_entries_of_lost_records_below_a_low_mark_go(tmp_path: Path) -> None:
    """A power cut may keep entries and not the marks that follow them: such entries of lost records go, too."""
    store = golden.unpack(ALONE, tmp_path)
    end = crash(store)
    keys = families(store)[fmt.FAMILY]
    last = max(fmt.offset_of(key) for key in keys if key not in fmt.MARKS and fmt.offset_of(key) < end)
    change(store, put={fmt.LAST_OFFSET: fmt.encode_mark(last)})
    put_one(store)
    assert_sound(store)
    assert families(store)[fmt.FAMILY] == given_by_log(store)


def test_a_kill_while_the_database_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before any write of the cut, or before its sync, the next opening finishes it, and loses no key."""
    monkeypatch.setattr(database_cut, "_BATCH_ENTRIES", 9)
    write, sync = DatabaseOwner.write, DatabaseOwner.sync
    for at in range(20):
        store = golden.unpack(ALONE, tmp_path / str(at))
        crash(store)
        left = at

        def killed(*_: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(DatabaseOwner, "write", lambda *given: (killed(), write(*given)))
            patch.setattr(DatabaseOwner, "sync", lambda *given: (killed(), sync(*given)))
            try:
                reput.MessageStore.open(store).close(reput=False)
            except Killed:
                pass
            else:
                # Batches of lost entries, the marks, and the sync.
                assert at >= 4
                return
        assert not [rule for severity, rule in rules_of(store) if severity == "damage"]
        put_one(store)
        assert_sound(store)
        assert families(store)[fmt.FAMILY] == given_by_log(store)
    pytest.fail("the cut never ended")


def test_a_cut_looks_at_the_newest_hours_alone(tmp_path: Path) -> None:
    """The entries of a lost record go if its hour is not more than one before the last record's, and no others go."""
    store = golden.unpack(ALONE, tmp_path)
    found = families(store)[fmt.FAMILY]
    key = fmt.decode_entry_key(next(iter(found)))
    assert key is not None
    near, far = (
        fmt.entry_key(key._replace(hour_ms=key.hour_ms - hours * fmt.HOUR_MS, physical_offset=FAR)) for hours in (1, 3)
    )
    change(store, put=dict.fromkeys((near, far), fmt.encode_value(key.hour_ms)))
    (store / paths.ABORT).touch()
    reput.MessageStore.open(store).close(reput=False)
    left = families(store)[fmt.FAMILY]
    assert left == {**found, far: fmt.encode_value(key.hour_ms)}
