"""check holds a RocksDB against the log: a sound one has no finding, each kind of damage has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from reput.files import fs
from reput.formats import paths
from reput.formats import rocksdb as fmt
from reput.formats.consume_queue import Entry, QueueKey
from reput.formats.rocksdb import OffsetValue
from support import databases, golden, stores
from support.crooked import CASES, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reput.files.database import Batch

QUEUE = QueueKey(b"orders", 0)


def changed(folder: Path, change: Callable[[Batch], None]) -> Path:
    """The golden store, closed cleanly, with a change to its database."""
    store = golden.unpack("rocksdb", folder)
    with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        change(batch)
        database.write(batch)
    return store


def rules(store: Path) -> list[str]:
    """The rules of what a check finds, but for notes."""
    report = reput.check(store, spark=False, config=stores.GOLDEN)
    return [finding.rule for finding in report.findings if finding.severity != "note"]


@pytest.mark.golden
@pytest.mark.parametrize("name", ["rocksdb", "double"])
def test_golden(name: str, tmp_path: Path) -> None:
    """What RocketMQ wrote is sound, and looking at it changes nothing."""
    store = golden.unpack(name, tmp_path)
    before = stores.digest(store, inodes=True)
    report = reput.check(store, spark=False, config=stores.GOLDEN)
    assert report.sound
    assert report.queue_entries == {"rocksdb": 2844, "double": 2858}[name]
    assert stores.digest(store, inodes=True) == before


@pytest.mark.golden
def test_entry_wrong(tmp_path: Path) -> None:
    """An entry that is not what its record gives is told with its queue and offset."""
    value = fmt.encode_value(Entry(5, 5, 5), 5)
    store = changed(tmp_path, lambda batch: batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(QUEUE, 3), value))
    (finding,) = reput.check(store, spark=False, config=stores.GOLDEN).findings
    assert finding.rule == "queue-entry-wrong"
    assert "orders/0" in finding.detail
    assert "first queue offset 3" in finding.detail


@pytest.mark.golden
def test_entry_missing(tmp_path: Path) -> None:
    """A record without an entry in the middle is damage."""
    store = changed(tmp_path, lambda batch: batch.delete(fmt.ENTRY_FAMILY, fmt.entry_key(QUEUE, 3)))
    assert rules(store) == ["queue-entry-missing"]


@pytest.mark.golden
def test_queue_missing(tmp_path: Path) -> None:
    """A queue that is gone altogether is told once."""

    def change(batch: Batch) -> None:
        batch.delete_range(fmt.ENTRY_FAMILY, *fmt.queue_bounds(QUEUE))
        batch.delete(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MAX))

    assert rules(changed(tmp_path, change)) == ["queue-missing"]


@pytest.mark.golden
@pytest.mark.parametrize("kind", [fmt.MAX, fmt.MIN])
def test_wrong_end(kind: bytes, tmp_path: Path) -> None:
    """A max in front of the last entry, or a min behind the first, hides messages."""
    value = fmt.encode_offset_value(OffsetValue(100, 5))
    store = changed(tmp_path, lambda batch: batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, kind), value))
    assert rules(store) == ["queue-end-wrong"]


@pytest.mark.golden
def test_unknown_queue(tmp_path: Path) -> None:
    """An entry of a queue that the log does not know is damage."""
    other = QueueKey(b"unheard", 1)

    def change(batch: Batch) -> None:
        batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(other, 0), fmt.encode_value(Entry(1000, 200, 0), 1))
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(other, fmt.MAX), fmt.encode_offset_value(OffsetValue(1000, 0)))

    assert rules(changed(tmp_path, change)) == ["queue-entry-without-record"]


@pytest.mark.golden
def test_restart_point_past_the_end(tmp_path: Path) -> None:
    """A restart point that the log does not reach would leave out what is written next."""
    value = fmt.RESTART_VALUE.struct.pack(1 << 40)
    store = changed(tmp_path, lambda batch: batch.put(fmt.OFFSET_FAMILY, fmt.RESTART_KEY, value))
    assert rules(store) == ["restart-point-past-end"]


@pytest.mark.golden
def test_damaged_table(tmp_path: Path) -> None:
    """A database that cannot be read is a finding, not an end of the check."""
    store = golden.unpack("rocksdb", tmp_path)
    table = max((store / paths.CONSUME_QUEUE).glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[1000] ^= 1
    table.write_bytes(data)
    (finding,) = reput.check(store, spark=False, config=stores.GOLDEN).findings
    assert finding.rule == "rocksdb-unreadable"
    assert table.name in finding.detail


@pytest.mark.parametrize("name", CASES)
def test_crooked_queues(name: str, tmp_path: Path) -> None:
    """What a rebuild makes of repeats, restarts and gaps is sound."""
    store, _ = written(CASES[name], 1, tmp_path)
    config = stores.StoreConfig(store_type="defaultRocksDB", max_hash_slot_num=16, max_index_num=8)
    reput.rebuild(store, spark=False, config=config, split_mb=0.0005)
    report = reput.check(store, spark=False, config=config, split_mb=0.0002)
    assert [finding for finding in report.findings if finding.severity != "note"] == []
