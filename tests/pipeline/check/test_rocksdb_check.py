"""check holds a RocksDB against the log: a sound one has no finding, each kind of damage has its own."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import DamagedStoreError
from reput.files import fs
from reput.files.database_owner import Batch
from reput.formats import paths
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import PRE_BLANK, Entry, QueueKey
from reput.formats.queue.rocksdb_consume_queue import OffsetValue
from reput.pipeline.check import rocksdb
from reput.queue.rocksdb_entries import EntryTable
from reput.queue.rocksdb_kind import open_reader
from support import databases, golden, stores
from support.checked import assert_sound
from support.opened import put
from support.out_of_order import CASES, written
from support.switches import config_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


QUEUE = QueueKey(b"orders", 0)


def changed(folder: Path, change: Callable[[Batch], None]) -> Path:
    """The golden store, closed cleanly, with a change to its database."""
    store = golden.unpack("rocksdb", folder)
    with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        change(batch)
        database.write(batch)
    return store


def max_of(store: Path) -> OffsetValue:
    """Return the database's max for a queue: the place of its last message."""
    with open_reader(store / paths.CONSUME_QUEUE) as reader:
        last = EntryTable(reader.families).offset(QUEUE, fmt.MAX)
    assert last is not None
    return last


def rules(store: Path) -> list[str]:
    """The rules of what a check finds, but for notes."""
    report = reput.check(store, spark=False, config=stores.GOLDEN)
    return [finding.rule for finding in report.findings if finding.severity != "note"]


@pytest.mark.golden
@pytest.mark.parametrize("name", ["rocksdb", "double"])
def test_golden(name: str, tmp_path: Path) -> None:
    """A store that RocketMQ wrote is sound, and a check changes nothing."""
    store = golden.unpack(name, tmp_path)
    before = stores.digest(store, inodes=True)
    report = reput.check(store, spark=False, config=stores.GOLDEN)
    assert report.sound
    assert report.queue_entries == golden.facts(name).queue_entries
    assert stores.digest(store, inodes=True) == before


@pytest.mark.golden
def test_entry_wrong(tmp_path: Path) -> None:
    """An entry that is not what its record gives is reported with its queue and offset."""
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
    """A queue that is gone altogether is reported once."""

    def change(batch: Batch) -> None:
        batch.delete_range(fmt.ENTRY_FAMILY, *fmt.queue_bounds(QUEUE))
        batch.delete(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MAX))

    assert rules(changed(tmp_path, change)) == ["queue-missing"]


@pytest.mark.golden
def test_queues_that_a_killed_broker_had_not_written_out_were_damage(tmp_path: Path) -> None:
    """A broker that is killed before RocksDB has written any entry out leaves no damage; one that was closed does.

    RocketMQ writes queues without RocksDB's own log, and dispatches again from where the database ends.
    """

    def change(batch: Batch) -> None:
        for family, values in databases.content(golden.shared("rocksdb")).items():
            for key in values:
                batch.delete(family, key)

    store = changed(tmp_path, change)
    assert "queue-out-of-date" in rules(store)
    assert reput.check(store, spark=False, config=stores.GOLDEN).exit_code == 1
    (store / paths.ABORT).touch()
    report = reput.check(store, spark=False, config=stores.GOLDEN)
    assert report.sound, report.findings
    assert "queue-out-of-date" in rules(store)
    with reput.MessageStore.open(store, config_of("rocksdb", stores.GOLDEN), create=True):
        pass
    assert_sound(store, stores.GOLDEN)
    assert databases.entries(databases.rocksdb(store)) == databases.entries(databases.rocksdb(golden.shared("rocksdb")))


@pytest.mark.parametrize("begins_late", [False, True])
def test_entries_after_the_end_that_a_kill_left_were_damage(begins_late: bool, tmp_path: Path) -> None:
    """A database has entries of the newest records, and ends of before: no damage if it dispatches them again."""
    store, config = tmp_path / "s", config_of("rocksdb", stores.SMALL)
    with reput.MessageStore.open(store, config, create=True) as opened:
        placed = put(opened, 9)
        opened.reput(spark=False)
        end = opened.view.confirmed()
    with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        key = fmt.offset_key(QueueKey(b"t", 0), fmt.MAX)
        batch.put(fmt.OFFSET_FAMILY, key, fmt.OFFSET_VALUE.struct.pack(placed[5], 5))
        restart = end if begins_late else placed[6]
        batch.put(fmt.OFFSET_FAMILY, fmt.RESTART_KEY, fmt.RESTART_VALUE.struct.pack(restart))
        database.write(batch)
    (store / paths.ABORT).touch()
    report = reput.check(store, spark=False, config=config)
    assert report.sound != begins_late
    found = {finding.rule for finding in report.findings if finding.severity != "note"}
    assert found == ({"queue-end-wrong"} if begins_late else {"queue-out-of-date"})


@pytest.mark.parametrize("begins_late", [False, True])
def test_a_deletion_that_a_killed_broker_had_not_written_out_was_damage(begins_late: bool, tmp_path: Path) -> None:
    """A queue that began again has its old entries still: no damage after a kill, unless it is said to be complete."""
    store, config = tmp_path / "s", config_of("rocksdb", stores.SMALL)
    with reput.MessageStore.open(store, config, create=True) as opened:
        put(opened, 9)
        opened.reput(spark=False)
    before = stores.copy(store / paths.CONSUME_QUEUE, tmp_path / "before")
    with reput.MessageStore.open(store, config) as opened:
        opened.delete_topic("t")
        put(opened, 2)
        end = opened.view.confirmed()
        opened.close(reput=False)
    shutil.rmtree(store / paths.CONSUME_QUEUE)
    stores.copy(before, store / paths.CONSUME_QUEUE)
    if begins_late:
        with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
            batch = database.batch()
            batch.put(fmt.OFFSET_FAMILY, fmt.RESTART_KEY, fmt.RESTART_VALUE.struct.pack(end))
            database.write(batch)
    (store / paths.ABORT).touch()
    report = reput.check(store, spark=False, config=config)
    assert report.sound != begins_late
    found = {finding.rule for finding in report.findings if finding.severity != "note"}
    assert found == ({"queue-entry-wrong", "queue-end-wrong"} if begins_late else {"queue-out-of-date"})
    if not begins_late:
        with reput.MessageStore.open(store, config):
            pass
        assert_sound(store, config)


@pytest.mark.golden
@pytest.mark.parametrize("kind", [fmt.MAX, fmt.MIN])
def test_wrong_end(kind: bytes, tmp_path: Path) -> None:
    """A max before the last entry, or a min after the first, hides messages."""
    value = fmt.encode_offset_value(OffsetValue(100, 5))
    store = changed(tmp_path, lambda batch: batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, kind), value))
    assert rules(store) == ["queue-end-wrong"]


@pytest.mark.golden
@pytest.mark.parametrize("distance", [1, 58, 10**12])
def test_max_too_high(distance: int, tmp_path: Path) -> None:
    """A max after the last entry would let the next message lie after a hole."""
    last, moved = max_of(golden.unpack("rocksdb", tmp_path / "as-it-was")), []

    def change(batch: Batch) -> None:
        moved.append(OffsetValue(last.physical_offset, last.queue_offset + distance))
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MAX), fmt.encode_offset_value(moved[0]))

    (finding,) = reput.check(changed(tmp_path, change), spark=False, config=stores.GOLDEN).findings
    assert finding.rule == "queue-end-wrong"
    assert f"{QUEUE} ends at {last.queue_offset + 1}: max is {moved[0].queue_offset}, no entry there" in finding.detail


@pytest.mark.golden
def test_blank_end(tmp_path: Path) -> None:
    """Blank entries for lost messages may lead up to the max, which then still has the last record's place."""
    last = max_of(golden.unpack("rocksdb", tmp_path / "as-it-was"))
    for number, place in enumerate((last.physical_offset, last.physical_offset + 1)):

        def change(batch: Batch, place: int = place) -> None:
            for offset in range(last.queue_offset + 1, last.queue_offset + 4):
                batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(QUEUE, offset), PRE_BLANK + bytes(8))
            value = fmt.encode_offset_value(OffsetValue(place, last.queue_offset + 3))
            batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MAX), value)

        assert rules(changed(tmp_path / str(number), change)) == ["queue-end-wrong"] * number


@pytest.mark.golden
def test_max_of_a_queue_without_records(tmp_path: Path) -> None:
    """A queue may be begun at a number, but not at one that this log cannot have brought."""
    for number in (5000, 10**12):
        value = fmt.encode_offset_value(OffsetValue(0, number))
        key = fmt.offset_key(QueueKey(b"unheard", 1), fmt.MAX)
        store = changed(tmp_path / str(number), partial(Batch.put, family=fmt.OFFSET_FAMILY, key=key, value=value))
        assert rules(store) == (["queue-end-wrong"] if number > 5000 else [])


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
    """Repeats, restarts and gaps are sound as a rebuild leaves them."""
    store, _ = written(CASES[name], 1, tmp_path)
    config = stores.StoreConfig(store_type="defaultRocksDB", max_hash_slot_num=16, max_index_num=8)
    reput.rebuild(store, spark=False, config=config, split_mb=0.0005)
    report = reput.check(store, spark=False, config=config, split_mb=0.0002)
    assert [finding for finding in report.findings if finding.severity != "note"] == []


@pytest.mark.parametrize("beside", [True, False])
def test_a_database_that_a_writer_changed_meanwhile_is_read_again(
    beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a writer the first errors of its database are not believed; where nobody writes the first one is."""
    store, config = tmp_path / "s", config_of("rocksdb", stores.SMALL)
    true, tries = rocksdb._compare_with_log, []

    def compare(*given: object) -> None:
        tries.append(1)
        if len(tries) <= 2:
            raise DamagedStoreError("a file went")
        true(*given)  # type: ignore[arg-type]

    opened = reput.MessageStore.open(store, config, create=True)
    put(opened, 9)
    opened.reput(spark=False)
    if not beside:
        opened.close()
    monkeypatch.setattr(rocksdb, "_compare_with_log", compare)
    report = reput.check(store, spark=False, config=config)
    assert report.sound == beside
    assert len(tries) == (3 if beside else 1)
    assert not [note for note in report.notes if "looks" in note]
    opened.close()
