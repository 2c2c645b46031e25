"""A rebuild into RocksDB gives what RocksDB of RocketMQ has, and what queue files have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import reput
from reput.errors import UnsupportedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import Entry, QueueKey
from reput.formats.queue.rocksdb_consume_queue import OffsetValue, decode_offset_value, offset_key
from support import databases, golden, stores
from support.out_of_order import CASES, SPLITS, written
from support.records import LogBuilder
from support.switches import config_of

if TYPE_CHECKING:
    from pathlib import Path

BOTH = config_of("double", stores.SMALL)
ROCKSDB = config_of("rocksdb", stores.SMALL)


def assert_holds(store: Path, theirs: dict[str, dict[bytes, bytes]]) -> None:
    """Fail where the database lacks, or has another value for, what RocketMQ's had, or has an entry more.

    RocketMQ notes where a queue begins when somebody asks. Ours notes it for every queue.
    """
    ours = databases.queues_content(store)
    assert ours[fmt.ENTRY_FAMILY] == theirs[fmt.ENTRY_FAMILY]
    assert {key: ours[fmt.OFFSET_FAMILY][key] for key in theirs[fmt.OFFSET_FAMILY]} == theirs[fmt.OFFSET_FAMILY]


@pytest.mark.golden
@pytest.mark.parametrize("split_mb", [128, 0.1])
def test_golden(split_mb: float, tmp_path: Path) -> None:
    """Keys and values are RocketMQ's, in both families."""
    store = golden.unpack("rocksdb", tmp_path)
    theirs = databases.queues_content(store)
    reput.rebuild(store, spark=False, config=stores.GOLDEN, split_mb=split_mb)
    assert_holds(store, theirs)
    assert databases.rocksdb(store).complete_to() == golden.facts("rocksdb").log_end


@pytest.mark.golden
def test_golden_double_write(tmp_path: Path) -> None:
    """Files and RocksDB are both RocketMQ's."""
    store = golden.unpack("double", tmp_path)
    theirs, files = databases.queues_content(store), list(golden.queue_files(store))
    reput.rebuild(store, spark=False, config=stores.GOLDEN)
    assert list(golden.queue_files(store)) == files
    assert_holds(store, theirs)
    databases.assert_same_queues(store)
    assert databases.rocksdb(store).complete_to() == golden.facts("double").log_end


@pytest.mark.golden
def test_every_opening_leaves_the_folder_alone(tmp_path: Path) -> None:
    """A reader makes no file in the store, and changes none."""
    store = golden.unpack("rocksdb", tmp_path)
    before = stores.digest(store, inodes=True)
    with reput.MessageStore.open(store, stores.GOLDEN, read_only=True) as opened:
        assert len(opened.queues()) == len(golden.facts("rocksdb").queues)
    assert stores.digest(store, inodes=True) == before


@pytest.mark.parametrize("split", [SPLITS[0], SPLITS[2], SPLITS[-1]])
@pytest.mark.parametrize("name", CASES)
def test_crooked_queues(name: str, split: int, tmp_path: Path) -> None:
    """Repeats, restarts and gaps come out in RocksDB as they do in files."""
    store, _ = written(CASES[name], 3, tmp_path)
    report = reput.rebuild(store, spark=False, config=BOTH, split_mb=split / (1 << 20))
    databases.assert_same_queues(store)
    odd = CASES[name]
    assert [queue.repeats for queue in report.out_of_order_queues] == [odd.repeats] * len(report.out_of_order_queues)


def test_a_gap_has_times_that_do_not_run_backwards(tmp_path: Path) -> None:
    """A blank in a gap has the store time of the message after it."""
    log = LogBuilder(4096)
    for offset in (0, 3, 4):
        log.message(queue_offset=offset)
    store = stores.with_log(tmp_path, log)
    reput.rebuild(store, spark=False, config=ROCKSDB)
    times = [fmt.decode_value(value)[1] for value in databases.content(store)[fmt.ENTRY_FAMILY].values()]
    assert len(times) == 5
    assert times == sorted(times)
    assert times[1] == times[2] == times[3]


def test_queue_that_starts_above_zero(tmp_path: Path) -> None:
    """A queue begins at its `min`; no entry lies before."""
    log = LogBuilder(4096)
    places = [log.message(queue_offset=7 + n).offset for n in range(5)]
    store = stores.with_log(tmp_path, log)
    reput.rebuild(store, spark=False, config=ROCKSDB)
    found = databases.content(store)
    assert len(found[fmt.ENTRY_FAMILY]) == 5
    key = QueueKey(b"topic", 0)
    assert decode_offset_value(found[fmt.OFFSET_FAMILY][offset_key(key, fmt.MIN)]) == (places[0], 7)
    assert decode_offset_value(found[fmt.OFFSET_FAMILY][offset_key(key, fmt.MAX)]) == (places[-1], 11)


def test_a_queue_without_records_keeps_its_number(tmp_path: Path) -> None:
    """A queue without records has a max of one less and a min of the number, as in RocketMQ's initializeWithOffset."""
    log = LogBuilder(4096)
    for _ in range(20):
        log.message()
    store = stores.with_log(tmp_path, log)
    reput.rebuild(store, spark=False, config=ROCKSDB)
    (store / paths.COMMIT_LOG / paths.offset_name(0)).unlink()
    empty = LogBuilder(4096)
    empty.message("other")
    empty.write(tmp_path / "other")
    (tmp_path / "other" / paths.COMMIT_LOG / paths.offset_name(0)).rename(
        store / paths.COMMIT_LOG / paths.offset_name(0)
    )
    report = reput.rebuild(store, spark=False, config=ROCKSDB)
    assert len(report.retained_queues) == 1
    ends = databases.content(store)[fmt.OFFSET_FAMILY]
    key = QueueKey(b"topic", 0)
    assert decode_offset_value(ends[offset_key(key, fmt.MAX)]) == OffsetValue(0, 19)
    assert decode_offset_value(ends[offset_key(key, fmt.MIN)]) == OffsetValue(0, 20)
    with reput.MessageStore.open(store, ROCKSDB, read_only=True) as opened:
        assert (opened.min_offset("topic", 0), opened.max_offset("topic", 0)) == (20, 20)


def spoil(store: Path, *topics: bytes) -> None:
    """Give queue 0 of these topics another entry, and one too many; and none of its last."""
    with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        for topic in topics:
            key = QueueKey(topic, 0)
            for offset in (1, 1 << 40):
                batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(key, offset), fmt.encode_value(Entry(7, 8, 9), 10))
            batch.delete(fmt.ENTRY_FAMILY, fmt.entry_key(key, 2))
            batch.delete(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MAX))
        database.write(batch)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["rocksdb", "double"])
@pytest.mark.parametrize("choice", [{"topics": ["orders"]}, {"skip_topics": ["%RETRY%group-a"]}])
def test_some_topics(name: str, choice: dict[str, list[str]], tmp_path: Path) -> None:
    """Only the topics that are asked for are built anew; every key and value, and file, of the others is as it was."""
    store = golden.unpack(name, tmp_path)
    reput.rebuild(store, spark=False, config=stores.GOLDEN)
    right, files = databases.content(store), list(golden.queue_files(store))
    spoil(store, b"orders", b"%RETRY%group-a")
    spoilt = databases.content(store)
    assert spoilt != right
    reput.rebuild(store, spark=False, config=stores.GOLDEN, **choice)  # type: ignore[arg-type]
    found = databases.content(store)
    begin, end = fmt.topic_bounds(b"%RETRY%group-a")
    for family in (fmt.ENTRY_FAMILY, fmt.OFFSET_FAMILY):
        others = {key: value for key, value in spoilt[family].items() if begin <= key < end}
        wanted = {key: value for key, value in right[family].items() if not begin <= key < end}
        assert found[family] == wanted | others
    assert list(golden.queue_files(store)) == files
    # Nothing is shared with anybody any more.
    assert {path.stat().st_nlink for path in (store / "consumequeue").rglob("*") if path.is_file()} == {1}
    reput.rebuild(store, spark=False, config=stores.GOLDEN, topics=["%RETRY%group-a"])
    assert databases.content(store) == right


@pytest.mark.golden
def test_some_topics_do_not_make_the_others_complete(tmp_path: Path) -> None:
    """The restart point stays below what the other topics lack, and the next opener takes that in."""
    store = golden.unpack("rocksdb", tmp_path)
    reput.rebuild(store, spark=False, config=stores.GOLDEN)
    right = databases.content(store)
    cut = 1 << 20
    databases.rocksdb(store).cut(cut, fs.owner_of(store))
    reput.rebuild(store, spark=False, config=stores.GOLDEN, topics=["orders"])
    assert databases.rocksdb(store).complete_to() == cut
    with reput.MessageStore.open(store, stores.GOLDEN, create=True):
        pass
    assert databases.content(store) == right


def test_an_odd_store_type_is_refused(tmp_path: Path) -> None:
    """A storeType that nobody knows is an error that names it."""
    log = LogBuilder(4096)
    log.message()
    store = stores.with_log(tmp_path, log)
    with pytest.raises(UnsupportedStoreError, match="storeType=odd"):
        reput.rebuild(store, spark=False, config=replace(stores.SMALL, store_type="odd"))
