"""The part of the indexes on disk that can be believed: the log must have the record below a frontier's offset."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import reput
from reput.config import StoreConfig
from reput.errors import DamagedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.own import files as own
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, QueueKey
from reput.formats.queue.consume_queue_ext import MAX_ADDRESS
from reput.log.read.maps import LogMaps
from reput.queue.ext import ExtReader
from reput.store.disk.checkpoint import write_checkpoint
from reput.store.disk.layout import find_store
from reput.store.disk.purpose import Purpose
from reput.store.disk.store import StoreOnDisk
from reput.store.recover import ext_end
from reput.store.recover.known_good import why_known_good
from reput.store.recover.recovery import _believed, find_start, fingerprint_before
from support import stores
from support.checked import assert_sound
from support.opened import CONFIG
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

FILE = 4096
EXT = replace(
    CONFIG, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=1000, mapped_file_size_consume_queue=600
)


def later_files(tmp_path: Path) -> tuple[LogBuilder, LogMaps]:
    """Make a log whose first file is gone: its records are in the files after it."""
    log = LogBuilder(FILE, start=FILE)
    for number in range(20):
        log.message("t", body=bytes([number]) * 500)
    return log, LogMaps(log.write(tmp_path) / paths.COMMIT_LOG, FILE)


def test_a_frontier_is_believed_by_its_record(tmp_path: Path) -> None:
    """An offset counts if the log has its fingerprint's record, or if that has expired and the log has the offset."""
    log, maps = later_files(tmp_path)
    last = log.placed[3]
    print_of_last = own.Fingerprint.of(last.offset, last.data, 0)
    end = last.offset + last.size
    assert _believed(maps, end, print_of_last) == end
    assert _believed(maps, end, print_of_last._replace(crc=1)) == -1
    assert _believed(maps, end, None) == -1
    assert _believed(maps, FILE, None) == FILE
    assert _believed(maps, -1, None) == 0
    expired = own.Fingerprint(FILE - 100, 100, 0, 0)
    assert _believed(maps, end, expired) == end
    assert _believed(maps, log.end + FILE, expired) == -1


def test_a_fingerprint_is_of_the_record_before(tmp_path: Path) -> None:
    """The fingerprint before an offset is that of the record that ends there; within a record there is none."""
    log, maps = later_files(tmp_path)
    placed = log.placed[3]
    found = fingerprint_before(maps, placed.offset + placed.size)
    assert found is not None
    assert (found.offset, found.size) == (placed.offset, placed.size)
    assert fingerprint_before(maps, placed.offset + 5) is None
    assert fingerprint_before(maps, FILE) is None


@pytest.mark.parametrize("is_newer", [False, True])
def test_after_a_crash_the_log_is_indexed_from_a_file_before_the_checkpoint(tmp_path: Path, is_newer: bool) -> None:
    """A killed store without a frontier is read from the last file whose first record the checkpoint calls durable."""
    log = LogBuilder(FILE)
    for number in range(30):
        log.message("t", body=bytes([number]) * 500, keys="k")
    path = stores.with_log(tmp_path, log)
    stores.rebuild(path, None)
    layout = find_store(path, StoreConfig())
    layout.own(own.FRONTIER_NAME).unlink(missing_ok=True)
    layout.abort.write_bytes(b"1")
    newest = log.placed[-1].record.store_timestamp + (3000 if is_newer else 0)
    write_checkpoint(layout, fs.owner_of(path), physic_msg_timestamp=newest, logics_msg_timestamp=newest)
    store = StoreOnDisk.find(path, None, Purpose.WRITE)
    with store.maps() as maps:
        start = find_start(store, maps)
    assert start.how == "crash"
    assert start.frontiers.queue_offset == (maps.starts[-1] if is_newer else 0)
    with reput.MessageStore.open(path) as opened:
        assert len(opened.query_message("t", "k", 100)) == 30
    assert_sound(path)


def test_a_record_after_a_bad_place_shows_that_it_was_good(tmp_path: Path) -> None:
    """Bad bytes before a record that the checkpoint calls durable are damage: the reason names that record."""
    log = LogBuilder(FILE)
    for number in range(6):
        log.message("t", body=bytes([number]) * 100)
    path = log.write(tmp_path)
    bad, after = log.placed[2], log.placed[3]
    name = path / paths.COMMIT_LOG / paths.offset_name(0)
    data = bytearray(name.read_bytes())
    data[bad.offset : bad.offset + 50] = b"x" * 50
    name.write_bytes(data)
    maps, layout = LogMaps(path / paths.COMMIT_LOG, FILE), find_store(path, StoreConfig())
    newest = maps.store_time(log.placed[-1].offset)
    write_checkpoint(layout, fs.owner_of(path), physic_msg_timestamp=newest)
    why = why_known_good(layout, maps, bad.offset, log.end - bad.offset)
    assert why.startswith(f"at log offset {after.offset} follows a record that the checkpoint calls durable")


# --- ext units -----------------------------------------------------------------------------------


def tagged_store(path: Path) -> tuple[Path, ExtReader]:
    """Make a store of 20 messages with ext units; return the folder of its queue and the reader of units."""
    with reput.MessageStore.open(path, EXT, create=True) as store:
        for number in range(20):
            store.put_message(reput.Message("t", b"body", tags=f"tag{number}"))
    return path / paths.CONSUME_QUEUE / "t" / "0", ExtReader(path / paths.CONSUME_QUEUE_EXT, 1000)


def codes_of(folder: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the tags codes of a queue's first file."""
    data = (folder / paths.offset_name(0)).read_bytes()
    return np.frombuffer(data, dtype=ENTRY.dtype)["tags_code"][:20].astype(np.int64)


def test_the_last_address_is_found_before_entries_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries without an ext unit are passed over, however many are read at once."""
    folder, _ = tagged_store(tmp_path / "s")
    codes = codes_of(folder)
    assert ext_end.last_address(folder, 20) == codes[19]
    assert ext_end.first_address(folder, 0) == codes[0]
    file = folder / paths.offset_name(0)
    data = bytearray(file.read_bytes())
    for number in range(3, 20):
        data[number * ENTRY_SIZE + 12 : (number + 1) * ENTRY_SIZE] = (MAX_ADDRESS + 1).to_bytes(8, signed=True)
    file.write_bytes(data)
    monkeypatch.setattr(ext_end, "_ENTRIES_AT_ONCE", 4)
    assert ext_end.last_address(folder, 20) == codes[2]
    assert ext_end.first_address(folder, 0) == codes[0]
    data[: 20 * ENTRY_SIZE] = data[5 * ENTRY_SIZE : 6 * ENTRY_SIZE] * 20
    file.write_bytes(data)
    assert ext_end.last_address(folder, 20) is None
    assert ext_end.first_address(folder, 0) is None


def test_units_that_a_crash_has_taken_are_cut_or_named(tmp_path: Path) -> None:
    """A lost unit of a record that was not durable ends the units before it; that of a durable record is damage."""
    folder, reader = tagged_store(tmp_path / "s")
    places = np.frombuffer((folder / paths.offset_name(0)).read_bytes(), dtype=ENTRY.dtype)["physical_offset"][:20]
    key, owner = QueueKey(b"t", 0), fs.owner_of(tmp_path / "s")
    files = sorted((tmp_path / "s" / paths.CONSUME_QUEUE_EXT / "t" / "0").iterdir())
    at = ext_end.end_of_units(folder, reader, key, 19)
    data = bytearray(files[0].read_bytes())
    data[at:] = bytes(len(data) - at)
    files[0].write_bytes(data)
    reader = ExtReader(reader.folder, 1000)
    with pytest.raises(DamagedStoreError, match=r"where there is no unit\. Run `reput rebuild --only queue`"):
        ext_end.cut_all_units(folder.parents[1], reader, owner)
    assert ext_end.cut_all_units(folder.parents[1], reader, owner, int(places[19])) == []
