"""The RocksDB kind by itself: many queues, time search, gaps, a log that moved on, and folders that are no database."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import rocksdict

import reput
from reput.errors import DamagedStoreError, ReputError
from reput.files import fs
from reput.files.database import DatabaseReader
from reput.formats import paths
from reput.formats.layout import INT64_MAX
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import ENTRY_SIZE, PRE_BLANK, Entry, QueueKey, decode_entry
from reput.formats.queue.rocksdb_consume_queue import OffsetValue
from reput.queue import rocksdb_kind
from reput.queue.rocksdb_entries import EntryTable
from reput.queue.rocksdb_kind import RocksdbKind
from reput.store.disk.kinds import present_kinds
from reput.store.disk.layout import StoreLayout
from support import databases, golden, stores
from support.records import LogBuilder
from support.search import cases
from support.switches import config_of

TOPICS = cases(2_000, 100_000)
QUEUES = 10 * TOPICS
MOST_FILES = cases(20, 100)
ROCKSDB = config_of("rocksdb", stores.SMALL)
QUEUE = QueueKey(b"orders", 3)


def kind_with(folder: Path, entries: dict[int, Entry], first: OffsetValue | None, last: OffsetValue) -> RocksdbKind:
    """A database with one queue; store times are ten times the queue offset."""
    kind = RocksdbKind(folder / "consumequeue", folder / "logs")
    fs.make_dirs(folder)
    with kind.open_to_write(fs.owner_of(folder)) as database:
        batch = database.batch()
        for offset, entry in entries.items():
            batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(QUEUE, offset), fmt.encode_value(entry, 10 * offset))
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MAX), fmt.encode_offset_value(last))
        if first is not None:
            batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MIN), fmt.encode_offset_value(first))
        database.write(batch)
    return kind


def straight(begin: int, end: int) -> dict[int, Entry]:
    """Entries whose records are 100 bytes apart."""
    return {offset: Entry(100 * offset, 100, offset) for offset in range(begin, end)}


@pytest.mark.parametrize("with_min", [False, True])
@pytest.mark.parametrize(
    ("log_min", "frontier", "span"),
    [(0, INT64_MAX, (10, 50)), (2000, INT64_MAX, (20, 50)), (2001, 4000, (21, 40)), (9000, INT64_MAX, (50, 50))],
)
def test_spans(log_min: int, frontier: int, span: tuple[int, int], with_min: bool, tmp_path: Path) -> None:
    """`min` is a hint that the log's minimum overtakes, and entries past the frontier do not count."""
    first = OffsetValue(1000, 10) if with_min else None
    kind = kind_with(tmp_path, straight(10, 50), first, OffsetValue(4900, 49))
    queues = kind.open()
    queues.load(frontier, log_min)
    stored = queues.find(QUEUE)
    assert stored is not None
    assert stored == span
    assert list(queues.spans()) == [(QUEUE, stored)]
    assert queues.find(QueueKey(b"orders", 4)) is None
    queues.close()


def test_reads_with_gaps(tmp_path: Path) -> None:
    """A missing key reads as a pre-blank; neighbours in the database are not read for it."""
    entries = {offset: entry for offset, entry in straight(0, 30).items() if offset not in (7, 8, 29)}
    kind = kind_with(tmp_path, entries, OffsetValue(0, 0), OffsetValue(2900, 29))
    queues = kind.open()
    queues.load(INT64_MAX, 0)
    data = queues.entries(QUEUE, 5, 30).tobytes()
    found = [data[at : at + ENTRY_SIZE] for at in range(0, len(data), ENTRY_SIZE)]
    assert [number + 5 for number, entry in enumerate(found) if entry == PRE_BLANK] == [7, 8, 29]
    assert decode_entry(found[4]) == Entry(900, 100, 9)
    times = queues.store_times(QUEUE)
    assert times is not None
    assert [times(offset) for offset in (6, 7, 8, 9)] == [60, -2, -1, 90]
    assert times(29) < -1
    queues.close()


def test_reading_ahead_gives_the_same(tmp_path: Path) -> None:
    """A reader that goes on where it ended gets blocks; they hold what single reads give."""
    kind = kind_with(tmp_path, straight(0, 5000), OffsetValue(0, 0), OffsetValue(499_900, 4999))
    queues = kind.open()
    queues.load(INT64_MAX, 0)
    assert queues.block(QUEUE, 0) is None
    queues.entries(QUEUE, 0, 32)
    assert queues.block(QUEUE, 0) is None
    queues.entries(QUEUE, 32, 64)
    block = queues.block(QUEUE, 32)
    assert block is not None
    begin, entries = block
    assert begin == 32
    assert (entries == queues.entries(QUEUE, 32, 32 + len(entries) // ENTRY_SIZE)).all()
    queues.close()


def test_many_queues(tmp_path: Path) -> None:
    """Many topics of ten queues, in a long run a million queues: few files, put, caught up, rebuilt, read."""
    path = tmp_path / "store"
    config = replace(ROCKSDB, max_hash_slot_num=1000, max_index_num=50_000)
    with reput.MessageStore.open(path, config, create=True) as store:
        for number in range(QUEUES):
            store.put_message(reput.Message(f"many-{number % TOPICS}", b"%d" % number), number // TOPICS)
        store.reput(spark=False)
        assert len(store.queues()) == QUEUES
    assert sum(1 for _ in (path / paths.CONSUME_QUEUE).iterdir()) < MOST_FILES
    reput.rebuild(path, spark=False, config=config)
    assert sum(1 for _ in (path / paths.CONSUME_QUEUE).iterdir()) < MOST_FILES
    descriptors = Path("/proc/self/fd")
    before = sum(1 for _ in descriptors.iterdir())
    with reput.MessageStore.open(path, config, read_only=True) as store:
        assert len(store.topics()) == TOPICS
        assert len(store.queues()) == QUEUES
        for number in range(0, QUEUES, 1001):
            (message,) = store.get_message(f"many-{number % TOPICS}", number // TOPICS, 0)
            assert message.body == b"%d" % number
        assert sum(1 for _ in descriptors.iterdir()) < before + 40
    assert reput.check(path, spark=False, config=config).sound


@pytest.mark.golden
def test_missing_family(tmp_path: Path) -> None:
    """A database of something else is reported as such, by its folder."""
    store = golden.unpack("rocksdb", tmp_path)
    folder = store / paths.CONSUME_QUEUE
    shutil.rmtree(folder)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    rocksdict.Rdict(str(folder), options).close()
    named = r"consumequeue.*not the database that RocketMQ keeps here"
    with pytest.raises(DamagedStoreError, match=named):
        reput.MessageStore.open(store, stores.GOLDEN)
    with reput.MessageStore.open(store, stores.GOLDEN, read_only=True) as opened:
        assert [re.search(named, text) is not None for text in opened.damage] == [True]
    reput.rebuild(store, spark=False, config=config_of("rocksdb", stores.GOLDEN))
    assert reput.check(store, spark=False, config=stores.GOLDEN).sound


@pytest.mark.golden
@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_damaged_files(name: str, tmp_path: Path) -> None:
    """A file that is cut or gone is damage, reported with its name and the remedy; a rebuild makes the store whole."""
    for cut in (False, True):
        store = golden.unpack("rocksdb", tmp_path / str(cut))
        path = max((store / paths.CONSUME_QUEUE).glob(name))
        path.write_bytes(b"x\n" if cut else b"")
        if not cut:
            path.unlink()
        config = config_of("rocksdb", stores.GOLDEN)
        if name != "MANIFEST-*" or not cut:
            with pytest.raises(DamagedStoreError, match="reput rebuild"):
                reput.MessageStore.open(store, config)
            with reput.MessageStore.open(store, config, read_only=True) as opened:
                assert ["reput rebuild" in text for text in opened.damage] == [True]
        reput.rebuild(store, spark=False, config=config)
        assert reput.check(store, spark=False, config=config).sound


@pytest.mark.golden
def test_hostile_values(tmp_path: Path) -> None:
    """Lengths and numbers that no queue has are an error or not believed, never memory or a crash."""
    store = golden.unpack("rocksdb", tmp_path)
    kind = RocksdbKind(store / paths.CONSUME_QUEUE, tmp_path / "logs")
    with kind.open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MAX), b"short")
        database.write(batch)
    with pytest.raises(DamagedStoreError, match="5 bytes, 16 expected"):
        reput.MessageStore.open(store, stores.GOLDEN, read_only=True).queues()
    with kind.open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        value = OffsetValue(0, (1 << 62) - 1)
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MAX), fmt.encode_offset_value(value))
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QueueKey(b"../x", 0), fmt.MAX), fmt.encode_offset_value(value))
        database.write(batch)
    report = reput.rebuild(store, spark=False, config=stores.GOLDEN)
    assert any("more than a log of this size" in text for text in report.warnings)
    assert "../x" not in str(report.retained_queues)


@pytest.mark.golden
@pytest.mark.parametrize("number", [1_000_000, 10**12, (1 << 63) - 1])
def test_max_far_behind_the_entries(number: int, tmp_path: Path) -> None:
    """A `max` that no log of this size can have brought is not believed, and none is walked down to the entries."""
    store = golden.unpack("rocksdb", tmp_path)
    kind = RocksdbKind(store / paths.CONSUME_QUEUE, tmp_path / "logs")
    key = QueueKey(b"orders", 0)
    with kind.open_to_write(fs.owner_of(store)) as database:
        true = EntryTable(database.families).offset(key, fmt.MAX)
        assert true is not None
        batch = database.batch()
        value = fmt.encode_offset_value(OffsetValue(true.physical_offset, number))
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MAX), value)
        database.write(batch)
    end = true.queue_offset + 1 if number >= 10**12 else number + 1
    with reput.MessageStore.open(store, stores.GOLDEN, read_only=True) as opened:
        assert opened.max_offset("orders", 0) == end
        first = opened.min_offset("orders", 0)
        last_time = opened.store_time("orders", 0, true.queue_offset)
        assert first < opened.offset_by_time("orders", 0, last_time) <= true.queue_offset
        assert opened.offset_by_time("orders", 0, last_time + 1) == true.queue_offset + 1
        assert opened.offset_by_time("orders", 0, last_time + 1, "upper") == true.queue_offset
    info = reput.info(store, config=stores.GOLDEN)
    (reported,) = [
        queue for topic in info.topics if topic.topic == "orders" for queue in topic.queues if not queue.queue_id
    ]
    assert reported.max_offset == end
    with present_kinds(StoreLayout(store, store / paths.COMMIT_LOG))[0].asked() as asked:
        queue = asked(key)
        assert queue is not None
        last = dict(queue.read(true.queue_offset, true.queue_offset + 1))[true.queue_offset]
        assert queue.span() == (first, end, last, range(first, end))
        # Seen up to the record before the last one, it ends there.
        assert queue.span(below=true.physical_offset).max_offset == true.queue_offset


@pytest.mark.golden
def test_convert_from_queues_with_a_max_far_out(tmp_path: Path) -> None:
    """The copy of a queue whose `max` cannot be ends where its entries do."""
    store = golden.unpack("rocksdb", tmp_path)
    with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        value = fmt.encode_offset_value(OffsetValue(100, 10**12))
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(QueueKey(b"orders", 0), fmt.MAX), value)
        database.write(batch)
    reput.convert(store, to="file", source="queues", spark=False, config=stores.GOLDEN)
    assert reput.check(store, spark=False, config=stores.GOLDEN).sound


@pytest.mark.golden
@pytest.mark.parametrize("lost", ["max", "entries", "nothing"])
def test_delete_of_a_queue_that_lost_a_part(lost: str, tmp_path: Path) -> None:
    """Entries without ends go with their topic, and so do ends without entries; nobody else's key goes."""
    store = golden.unpack("rocksdb", tmp_path)
    kind, owner = databases.rocksdb(store), fs.owner_of(store)
    key = QueueKey(b"payments", 2)
    with kind.open_to_write(owner) as database:
        batch = database.batch()
        if lost == "max":
            for end in (fmt.MAX, fmt.MIN):
                batch.delete(fmt.OFFSET_FAMILY, fmt.offset_key(key, end))
        elif lost == "entries":
            batch.delete_range(fmt.ENTRY_FAMILY, *fmt.queue_bounds(key))
        database.write(batch)
    before = databases.content(store)
    assert kind.delete(b"payments", 2, owner, tmp_path) == [key]
    begin, end = fmt.queue_bounds(key)
    entries = {raw: value for raw, value in before[fmt.ENTRY_FAMILY].items() if not begin <= raw < end}
    ends = {fmt.offset_key(key, end) for end in (fmt.MAX, fmt.MIN)}
    assert databases.content(store) == {
        fmt.ENTRY_FAMILY: entries,
        fmt.OFFSET_FAMILY: {raw: value for raw, value in before[fmt.OFFSET_FAMILY].items() if raw not in ends},
    }
    assert kind.delete(b"payments", None, owner, tmp_path) == [
        QueueKey(b"payments", queue_id) for queue_id in (0, 1, 3)
    ]
    assert kind.delete(b"payments", None, owner, tmp_path) == []
    assert kind.delete(fmt.CHECKPOINT_TOPIC, None, owner, tmp_path) == []
    assert kind.complete_to()


def test_log_builder_store_reads_from_rocksdb(tmp_path: Path) -> None:
    """Times are looked up in the database, and say what the log says."""
    log = LogBuilder(4096)
    for _ in range(50):
        log.message()
    store = stores.with_log(tmp_path, log)
    reput.rebuild(store, spark=False, config=ROCKSDB)
    files = stores.copy(store, tmp_path / "files")
    reput.convert(files, to="file", spark=False, config=stores.SMALL)
    with (
        reput.MessageStore.open(store, ROCKSDB, read_only=True) as one,
        reput.MessageStore.open(files, stores.SMALL, read_only=True) as other,
    ):
        times = [one.store_time("topic", 0, offset) for offset in range(50)]
        for boundary in ("lower", "upper"):
            for ms in sorted({time + shift for time in times for shift in (-1, 0, 1)}):
                asked = ("topic", 0, ms, boundary)
                assert one.offset_by_time(*asked) == other.offset_by_time(*asked)


def test_a_database_that_cannot_be_opened_again_showed_no_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR is away while log files expire: the queues of before go on, and no number is given twice."""
    log = LogBuilder(1 << 14)
    for _ in range(400):
        log.message("orders", body=b"old")
    store = stores.with_log(tmp_path, log)
    config = replace(ROCKSDB, mapped_file_size_commit_log=1 << 14)
    reput.rebuild(store, spark=False, config=config)
    stores.forget_given_offsets(store)
    os.utime(store / paths.COMMIT_LOG / paths.offset_name(0), (1e9, 1e9))
    with reput.MessageStore.open(store, config) as opened:
        with monkeypatch.context() as patched:
            patched.setattr(tempfile, "tempdir", str(tmp_path / "away"))
            with pytest.raises(ReputError, match="cannot make a temporary folder in"):
                opened.delete_expired(manual=True)
        assert opened.max_offset("orders", 0) == 400
        assert opened.put_message(reput.Message("orders", b"new")).queue_offset == 400
        opened.reput(spark=False)
    with reput.MessageStore.open(store, config, read_only=True) as opened:
        assert opened.max_offset("orders", 0) == 401
        assert 0 < opened.min_offset("orders", 0) < 400


def test_a_database_that_cannot_be_followed_for_a_moment_was_closed_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle of before goes on, and the next look opens the database again."""
    store = golden.unpack("rocksdb", tmp_path)
    with rocksdb_kind.open_reader(store / paths.CONSUME_QUEUE) as reader:
        rows = list(EntryTable(reader.families).ends())

        def busy(_self: DatabaseReader, _families: list[str]) -> None:
            raise ReputError("its files change faster than they can be read. Try again")

        with monkeypatch.context() as patched:
            patched.setattr(DatabaseReader, "_open", busy)
            with pytest.raises(ReputError, match="Try again"):
                reader.refresh(lambda: False)
        assert list(EntryTable(reader.families).ends()) == rows
        assert reader.refresh(lambda: False)
        assert list(EntryTable(reader.families).ends()) == rows
