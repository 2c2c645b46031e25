"""RocketMQ's own tests of its queues (store module), one of ours for each that shows a behaviour, under its name.

Where ours answers otherwise on purpose the docstring says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import reput
from reput.errors import DamagedStoreError, UnsupportedStoreError
from reput.files import fs
from reput.formats import paths
from reput.formats.log.record import FLAG_INNER_BATCH
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import PRE_BLANK, Entry, QueueKey, encode_entry
from reput.formats.queue.consume_queue_ext import END_ROOM, FILE_END, MIN_ADDRESS, Unit, address_of
from reput.formats.queue.rocksdb_consume_queue import OffsetValue
from reput.log.encode.message import Message
from reput.queue.batch_kind import BatchKind
from reput.queue.by_time import Boundary, offset_by_time
from reput.queue.ext import ExtReader, list_ext_files, place_units
from reput.queue.files import list_queues
from reput.queue.reader import queue_span
from reput.store.read.results import GetStatus
from reput.store.recover.ext_end import cut_units
from support import databases, opened, stores
from support.encoders import encode_ext_unit
from support.inner import CONFIG, new_store, topics_json
from support.records import LogBuilder
from support.switches import config_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reput.queue.batch_kind import BatchQueueFiles
    from reput.queue.files import QueueFolder

EXT = replace(CONFIG, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=1000)
ROCKSDB = config_of("rocksdb", CONFIG)
BOTH = config_of("double", CONFIG)
KEY = QueueKey(b"topic", 0)


# --- ConsumeQueueTest ------------------------------------------------------------------------------


@pytest.mark.behaviour("ConsumeQueueTest.testPutMessagePositionInfo_buildCQRepeatedly")
def test_put_message_position_info_build_cq_repeatedly(tmp_path: Path) -> None:
    """A record that is dispatched again is no error, and writes nothing."""
    with reput.MessageStore.open(tmp_path / "store", opened.CONFIG, create=True) as store:
        opened.put(store, 25)
    before = stores.queue_files(tmp_path / "store")
    # Nothing shows any more how far the queues are: the log is dispatched from an older place.
    opened.forget_known_good(tmp_path / "store")
    with reput.MessageStore.open(tmp_path / "store", opened.CONFIG, create=True) as store:
        assert len(opened.bodies(store)) == 25
    assert stores.queue_files(tmp_path / "store") == before


@pytest.mark.behaviour("ConsumeQueueTest.testConsumeQueueWithExtendData")
def test_consume_queue_with_extend_data(tmp_path: Path) -> None:
    """With ext each entry leads to a unit that has its tags code and a store time."""
    with reput.MessageStore.open(tmp_path / "store", EXT, create=True) as store:
        placed = [store.put_message(Message("orders", b"x", tags=f"tag{n}")) for n in range(100)]
        store.reput(spark=False)
    (queue,) = list_queues(tmp_path / "store" / paths.CONSUME_QUEUE)
    _, entries = stores.entries(tmp_path / "store", "orders")
    units = ExtReader(tmp_path / "store" / paths.CONSUME_QUEUE_EXT, 1000).units(
        QueueKey(b"orders", 0), np.array([entry.tags_code for entry in entries])
    )
    assert queue_span(queue).max_offset == units.found.sum() == 100
    assert units.store_timestamp.tolist() == [one.store_timestamp for one in placed]
    with reput.MessageStore.open(tmp_path / "store", EXT, create=True) as store:
        assert [message.tags for message in store.get_message("orders", 0, 7, 1, "tag7")] == ["tag7"]


def queue_of(folder: Path, data: bytes, file_size: int = 200 * 20) -> QueueFolder:
    """A queue with these entries."""
    path = folder / "topic" / "0"
    path.mkdir(parents=True)
    for at in range(0, len(data), file_size):
        (path / paths.offset_name(at)).write_bytes(data[at : at + file_size].ljust(file_size, b"\0"))
    (queue,) = list_queues(folder)
    return queue


@pytest.mark.behaviour("ConsumeQueueTest.testCorrectMinOffset")
def test_correct_min_offset(tmp_path: Path) -> None:
    """Of 10,000 records of 100 bytes the first that the log still has is the queue's min; without any, its max is."""
    queue = queue_of(tmp_path, b"".join(encode_entry(Entry(100 * n, 100, 0)) for n in range(10_000)))
    for log_min_offset, min_offset in ((0, 0), (2000, 20), (2001, 21), (1_000_000, 10_000), (1_000_000, 10_000)):
        span = queue_span(queue, log_min_offset)
        assert (span.min_offset, span.max_offset) == (min_offset, 10_000)


@pytest.mark.behaviour("ConsumeQueueTest.testFillBankThenCorrectMinOffset")
def test_fill_bank_then_correct_min_offset(tmp_path: Path) -> None:
    """A queue that was begun at 100, and has blanks alone, is empty there: min and max are 100."""
    queue = queue_of(tmp_path, PRE_BLANK * 100)
    for log_min_offset in (0, 1):
        span = queue_span(queue, log_min_offset)
        assert (span.min_offset, span.max_offset) == (100, 100)


# --- ConsumeQueueExtTest ---------------------------------------------------------------------------

UNITS = [Unit(n, 1000 + n, bytes([n % 256]) * (n % 3)) for n in range(100)]
SIZE = 300


def ext_files(folder: Path) -> list[int]:
    """The ext files of a queue with these units, put one after the other; the units' byte offsets."""
    (folder / "topic" / "0").mkdir(parents=True)
    files: dict[int, bytearray] = {}
    placed, at = [], 0
    for unit in UNITS:
        place = place_units(at, unit.size, 1, SIZE)
        for end in place.ends:
            files[end // SIZE][end % SIZE : end % SIZE + len(FILE_END)] = FILE_END
        (offset,) = place.offsets.tolist()
        begin = offset % SIZE
        files.setdefault(offset // SIZE, bytearray(SIZE))[begin : begin + unit.size] = encode_ext_unit(unit)
        assert begin + unit.size <= SIZE - END_ROOM
        placed.append(offset)
        at = place.next
    for number, data in files.items():
        (folder / "topic" / "0" / paths.offset_name(number * SIZE)).write_bytes(data)
    return placed


@pytest.mark.behaviour("ConsumeQueueExtTest.testPut")
def test_put(tmp_path: Path) -> None:
    """Every address is below 0, and the unit there is the one that was put, whatever its size."""
    placed = ext_files(tmp_path)
    reader = ExtReader(tmp_path, SIZE)
    assert [reader.unit(KEY, address_of(offset)) for offset in placed] == UNITS
    assert max(address_of(offset) for offset in placed) < 0


@pytest.mark.behaviour("ConsumeQueueExtTest.testGet")
def test_get(tmp_path: Path) -> None:
    """From the first address on, unit by unit, all are found."""
    placed = ext_files(tmp_path)
    reader = ExtReader(tmp_path, SIZE)
    at, found = 0, []
    while len(found) < len(UNITS):
        unit = reader.unit(KEY, MIN_ADDRESS + at)
        if unit is None:
            at = at // SIZE * SIZE + SIZE
            continue
        assert at == placed[len(found)]
        found.append(unit)
        at += unit.size
    assert found == UNITS


@pytest.mark.behaviour("ConsumeQueueExtTest.testGet_invalidAddress")
def test_get_invalid_address(tmp_path: Path) -> None:
    """0 and what is above are no addresses: no unit is there."""
    ext_files(tmp_path)
    reader = ExtReader(tmp_path, SIZE)
    assert [reader.unit(KEY, address) for address in (0, 1, 20, 1 << 40)] == [None] * 4


@pytest.mark.behaviour("ConsumeQueueExtTest.testRecovery")
def test_recovery_of_ext(tmp_path: Path) -> None:
    """Opened anew the units begin at the least address and end after the last one: the next goes there."""
    with reput.MessageStore.open(tmp_path / "store", EXT, create=True) as store:
        for _ in range(150):
            store.put_message(Message("orders", b"x", tags="paid"))
    in_file = (1000 - END_ROOM) // 20
    with reput.MessageStore.open(tmp_path / "store", EXT, create=True) as store:
        store.put_message(Message("orders", b"x", tags="paid"))
    codes = [entry.tags_code for entry in stores.entries(tmp_path / "store", "orders")[1]]
    assert codes == [MIN_ADDRESS + n // in_file * 1000 + n % in_file * 20 for n in range(151)]


@pytest.mark.behaviour("ConsumeQueueExtTest.testTruncateByMinOffset")
def test_truncate_by_min_offset(tmp_path: Path) -> None:
    """An expiry of the records of the first one and a half files of units removes the first file, not the second."""
    config = replace(EXT, mapped_file_size_commit_log=1 << 12)
    with reput.MessageStore.open(tmp_path / "store", config, create=True) as store:
        while len(list_ext_files(tmp_path / "store" / paths.CONSUME_QUEUE_EXT, QueueKey(b"orders", 0))) < 3:
            for _ in range(10):
                store.put_message(Message("orders", b"x" * 50, tags="paid"))
            store.reput(spark=False)
        store.delete_expired(manual=True)
        first = store.min_offset("orders", 0)
        assert first > 49
    files = list_ext_files(tmp_path / "store" / paths.CONSUME_QUEUE_EXT, QueueKey(b"orders", 0))
    begin, entries = stores.entries(tmp_path / "store", "orders")
    kept = entries[first - begin].tags_code - MIN_ADDRESS
    assert files[0].start > 0
    assert files[0].start <= kept < files[0].start + 1000


@pytest.mark.behaviour("ConsumeQueueExtTest.testTruncateByMaxOffset")
def test_truncate_by_max_offset(tmp_path: Path) -> None:
    """Cut after a unit, that one is the last: what follows it is zeros, and later files are gone."""
    placed = ext_files(tmp_path)
    reader = ExtReader(tmp_path, SIZE)
    end = placed[40] + UNITS[40].size
    cut_units(reader, KEY, end, fs.owner_of(tmp_path))
    reader = ExtReader(tmp_path, SIZE)
    found = [reader.unit(KEY, address_of(offset)) for offset in placed]
    assert found == [*UNITS[:41], *[None] * 59]
    files = list_ext_files(tmp_path, KEY)
    assert files[-1].start == placed[40] // SIZE * SIZE
    assert not any(files[-1].path.read_bytes()[end % SIZE :])


# --- queue/ConsumeQueueTest ------------------------------------------------------------------------


@pytest.mark.behaviour("ConsumeQueueTest.testIterator")
@pytest.mark.parametrize("config", [CONFIG, EXT, ROCKSDB], ids=["file", "ext", "rocksdb"])
def test_iterator(config: reput.StoreConfig, tmp_path: Path) -> None:
    """An empty queue is 0 to 0; below min and from max on nothing comes; from any start all comes up to the end."""
    with reput.MessageStore.open(tmp_path / "store", config, create=True) as store:
        assert (store.min_offset("orders", 0), store.max_offset("orders", 0)) == (0, 0)
        for n in range(90):
            store.put_message(Message("orders", str(n).encode(), tags="paid"))
        store.reput(spark=False)
        assert not len(store.get_message("orders", 0, -1))
        assert not len(store.get_message("orders", 0, 90))
        for begin in range(90):
            offset, found = begin, []
            while (got := store.get_message("orders", 0, offset)).status is GetStatus.FOUND:
                found += [(message.queue_offset, int(message.body)) for message in got]
                offset = got.next_offset
            assert found == [(n, n) for n in range(begin, 90)]


def tagged(folder: Path, config: reput.StoreConfig) -> reput.MessageStore:
    """A store of one queue of 200 messages, the first of every three with tag a."""
    store = reput.MessageStore.open(folder / "store", config, create=True)
    for n in range(200):
        store.put_message(Message("orders", b"x", tags="abb"[n % 3]))
    store.reput(spark=False)
    return store


@pytest.mark.behaviour("ConsumeQueueTest.testEstimateMessageCount", "ConsumeQueueTest.testEstimateRocksdbMessageCount")
@pytest.mark.parametrize("config", [CONFIG, EXT, ROCKSDB], ids=["file", "ext", "rocksdb"])
def test_estimate_message_count(config: reput.StoreConfig, tmp_path: Path) -> None:
    """67 of 200 where one of three has the tag. For an empty range RocketMQ returns -1, and we 0."""
    empty = ((200, 300), (10, 10), (20, 10))
    with tagged(tmp_path, config) as store:
        assert store.estimate("orders", 0, 0, 200, "a") == 67
        assert store.estimate("orders", 0, 0, 200) == 200
        assert [store.estimate("orders", 0, begin, end, "a") for begin, end in empty] == [0] * 3


@pytest.mark.behaviour(
    "ConsumeQueueTest.testEstimateMessageCountInEmptyConsumeQueue",
    "ConsumeQueueTest.testEstimateRocksdbMessageCountInEmptyConsumeQueue",
)
@pytest.mark.parametrize("config", [CONFIG, ROCKSDB], ids=["file", "rocksdb"])
def test_estimate_message_count_in_empty_consume_queue(config: reput.StoreConfig, tmp_path: Path) -> None:
    """Of an empty queue nothing is counted (RocketMQ says -1)."""
    with reput.MessageStore.open(tmp_path / "store", config, create=True) as store:
        assert store.estimate("orders", 0, 0, 100, "a") == store.estimate("orders", 0, 0, 100) == 0


@pytest.mark.behaviour(
    "ConsumeQueueTest.testEstimateMessageCountSample", "ConsumeQueueTest.testEstimateRocksdbMessageCountSample"
)
def test_estimate_message_count_sample(tmp_path: Path) -> None:
    """RocketMQ looks at a sample and says 15 of [100, 150); here all are counted: 16."""
    with tagged(tmp_path, CONFIG) as store:
        assert store.estimate("orders", 0, 100, 150, "a") == len([n for n in range(100, 150) if n % 3 == 0])


# --- queue/ConsumeQueueStoreTest -------------------------------------------------------------------


@pytest.mark.behaviour("ConsumeQueueStoreTest.testLoadConsumeQueuesWithWrongAttribute")
def test_load_consume_queues_with_wrong_attribute(tmp_path: Path) -> None:
    """A topic with queues of single messages that topics.json calls BatchCQ: the store is not opened."""
    with new_store(tmp_path / "store") as store:
        store.put_message(Message("orders", b"x"))
    topics_json(tmp_path / "store", {"orders": {"queue.type": "BatchCQ"}})
    with pytest.raises(DamagedStoreError, match=r"consumequeue/orders: queues of type SimpleCQ, .* is BatchCQ"):
        reput.MessageStore.open(tmp_path / "store", CONFIG, create=True)


@pytest.mark.behaviour("ConsumeQueueStoreTest.testLoadBatchConsumeQueuesWithWrongAttribute")
def test_load_batch_consume_queues_with_wrong_attribute(tmp_path: Path) -> None:
    """The reverse."""
    with new_store(tmp_path / "store") as store:
        store.put_message(batch(10))
    topics_json(tmp_path / "store", {"batches": {"queue.type": "SimpleCQ"}})
    with pytest.raises(DamagedStoreError, match=r"batchconsumequeue/batches: queues of type BatchCQ, .* is SimpleCQ"):
        reput.MessageStore.open(tmp_path / "store", CONFIG, create=True)


# --- queue/BatchConsumeQueueTest -------------------------------------------------------------------

IN_FILE = 20
BATCHES = replace(stores.SMALL, mapped_file_size_commit_log=1 << 22, mapper_file_size_batch_consume_queue=46 * IN_FILE)


def batch(count: int, body: bytes = b"x") -> Message:
    """A batch of this number of messages."""
    return Message("batches", body, properties={"INNER_NUM": str(count)}, sys_flag=FLAG_INNER_BATCH)


def batches(folder: Path, count: int, base: int) -> tuple[reput.MessageStore, LogBuilder]:
    """A store with this number of batches of ten messages in one queue from `base`; each a millisecond later."""
    log = LogBuilder(1 << 22, tick_ms=1)
    for n in range(count):
        offset = base + 10 * n
        more = {"INNER_NUM": "10", "INNER_BASE": str(offset)}
        log.message("batches", queue_offset=offset, sys_flag=FLAG_INNER_BATCH, more=more)
    store = stores.with_log(folder, log)
    topics_json(store, {"batches": {"queue.type": "BatchCQ"}})
    reput.rebuild(store, spark=False, config=BATCHES)
    return reput.MessageStore.open(store, BATCHES, read_only=True), log


def batch_queue(store: reput.MessageStore) -> BatchQueueFiles:
    """Its one queue of batches."""
    (queue,) = BatchKind(store.layout.batch_consume_queue).queues()
    return queue


@pytest.mark.behaviour("BatchConsumeQueueTest.testBuildAndIterateBatchConsumeQueue")
def test_build_and_iterate_batch_consume_queue(tmp_path: Path) -> None:
    """10,000 batches of ten from 1000 on: 500 files, 1000 to 101,000, and any offset inside finds its batch."""
    store, log = batches(tmp_path, 10_000, 1000)
    assert len(batch_queue(store).filled) == 500
    assert (store.min_offset("batches", 0), store.max_offset("batches", 0)) == (1000, 101_000)
    for offset in (*range(1000, 1100), 50_005, 100_989, 100_990, 100_999):
        got = store.get_message("batches", 0, offset, 1)
        assert got.physical_offsets.tolist() == [log.placed[(offset - 1000) // 10].offset]
        assert got.next_offset == offset // 10 * 10 + 10


@pytest.mark.behaviour("BatchConsumeQueueTest.testBuildAndSearchBatchConsumeQueue")
def test_build_and_search_batch_consume_queue(tmp_path: Path) -> None:
    """A time gives its batch's first offset; before all it is the first batch's, after all the last one's."""
    store, _ = batches(tmp_path, 2000, 1)
    first = store.store_time("batches", 0, 1)
    expected = {-100: 1, 0: 1, 1: 11, 777: 7771, 1999: 19_991, 1 << 30: 19_991}
    for later, offset in expected.items():
        assert store.offset_by_time("batches", 0, first + later) == offset


@pytest.mark.behaviour("BatchConsumeQueueTest.testBuildAndRecoverBatchConsumeQueue")
def test_build_and_recover_batch_consume_queue(tmp_path: Path) -> None:
    """Opened anew, to write, the queue is the same, and goes on where it ended."""
    store, _ = batches(tmp_path, 100, 1000)
    store.close()
    with reput.MessageStore.open(store.layout.root, BATCHES, create=True) as again:
        assert (again.min_offset("batches", 0), again.max_offset("batches", 0)) == (1000, 2000)
        assert again.put_message(batch(10)).queue_offset == 2000


@pytest.mark.behaviour("BatchConsumeQueueTest.testTruncateBatchConsumeQueue")
def test_truncate_batch_consume_queue(tmp_path: Path) -> None:
    """Cut at a record nothing at or after it is left, wherever it is."""
    store, log = batches(tmp_path, 100, 0)
    files = BatchKind(store.layout.batch_consume_queue)
    for n in (99, 80, 41, 40, 3, 0):
        files.cut(log.placed[n].offset, fs.owner_of(store.layout.root))
        span = batch_queue(store).span()
        assert (span.entries.stop, span.max_offset) == (n, 10 * n)


@pytest.mark.behaviour("BatchConsumeQueueTest.testTruncateAndDeleteBatchConsumeQueue")
def test_truncate_and_delete_batch_consume_queue(tmp_path: Path) -> None:
    """100 batches from 1, cut at the 80th, then all before the 30th expired: 301 to 801, in files 2 to 4."""
    store, log = batches(tmp_path, 100, 1)
    files = BatchKind(store.layout.batch_consume_queue)
    files.cut(log.placed[80].offset, fs.owner_of(store.layout.root))
    span = batch_queue(store).span()
    assert (span.min_offset, span.max_offset, span.entries.stop) == (1, 801, 4 * IN_FILE)
    files.delete_expired(log.placed[30].offset)
    queue = batch_queue(store)
    span = queue.span(log.placed[30].offset)
    assert (span.min_offset, span.max_offset) == (301, 801)
    assert [file.start // 46 for file in queue.filled if file.start < span.entries.stop * 46] == [20, 40, 60]


# --- queue/BatchConsumeMessageTest -----------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[reput.MessageStore]:
    """A store whose topic "batches" is BatchCQ."""
    with new_store(tmp_path / "store") as opened_store:
        yield opened_store


@pytest.mark.behaviour("BatchConsumeMessageTest.testSendMessagesToBcqTopic")
def test_send_messages_to_bcq_topic(store: reput.MessageStore) -> None:
    """A message alone, and one with the flag and without a number, are taken there; each counts as one."""
    alone = store.put_message(Message("batches", b"x"))
    flagged = store.put_message(Message("batches", b"x", sys_flag=FLAG_INNER_BATCH))
    assert [one.status for one in (alone, flagged)] == [reput.PutStatus.PUT_OK] * 2
    assert [one.queue_offset for one in (alone, flagged)] == [0, 1]
    assert store.max_offset("batches", 0) == 2


@pytest.mark.behaviour("BatchConsumeMessageTest.testConsumeBatchMessage")
def test_consume_batch_message(store: reput.MessageStore) -> None:
    """Any offset inside a batch finds it."""
    placed = store.put_message(batch(10)).physical_offset
    for offset in range(10):
        got = store.get_message("batches", 0, offset, 10)
        assert (got.status, got.physical_offsets.tolist(), got.next_offset) == (GetStatus.FOUND, [placed], 10)
    assert got.max_offset == 10


@pytest.mark.behaviour("BatchConsumeMessageTest.testNextBeginOffsetConsumeBatchMessage")
def test_next_begin_offset_consume_batch_message(store: reput.MessageStore) -> None:
    """Asked for one message a pull gives a whole batch, and the next begins after it."""
    counts, base = [3, 7, 1, 9, 10], 0
    for count in counts:
        store.put_message(batch(count))
    for count in counts:
        got = store.get_message("batches", 0, base, 1)
        assert (len(got.physical_offsets), got.next_offset) == (1, base + count)
        base += count


@pytest.mark.behaviour("BatchConsumeMessageTest.testGetOffsetInQueueByTime")
def test_get_offset_in_queue_by_time(tmp_path: Path) -> None:
    """A time in the middle gives its batch's offset, also when older files have gone."""
    store, log = batches(tmp_path, 100, 0)
    middle = log.placed[80].record.store_timestamp
    assert store.offset_by_time("batches", 0, middle) == 800
    store.close()
    gone = BatchKind(store.layout.batch_consume_queue).delete_expired(log.placed[50].offset)
    assert len(gone) == 2
    with reput.MessageStore.open(store.layout.root, BATCHES, read_only=True) as again:
        assert again.min_offset("batches", 0) == 400
        assert again.offset_by_time("batches", 0, middle) == 800


@pytest.mark.behaviour("BatchConsumeMessageTest.testDispatchNormalConsumeQueue")
def test_dispatch_normal_consume_queue(tmp_path: Path) -> None:
    """100 messages: the first, one in the middle, the end; and all that says a time or a place agrees."""
    log = LogBuilder(tick_ms=10)
    for _ in range(100):
        log.message()
    path = stores.with_log(tmp_path, log)
    stores.rebuild(path)
    with reput.MessageStore.open(path, stores.SMALL, read_only=True) as store:
        times = [store.store_time("topic", 0, n) for n in range(100)]
        assert times == [placed.record.store_timestamp for placed in log.placed]
        assert [store.offset_by_time("topic", 0, time) for time in (0, times[50], 1 << 60)] == [0, 50, 100]
        got = store.get_message("topic", 0, 50, 1)
        assert got.physical_offsets.tolist() == [log.placed[50].offset]


@pytest.mark.behaviour("BatchConsumeMessageTest.testDispatchBuildBatchConsumeQueue")
def test_dispatch_build_batch_consume_queue(store: reput.MessageStore) -> None:
    """100 batches of ten: 1000 offsets, and each batch says its number and its first offset."""
    for _ in range(100):
        store.put_message(batch(10))
    store.reput(spark=False)
    assert (store.min_offset("batches", 0), store.max_offset("batches", 0)) == (0, 1000)
    for n in range(100):
        (message,) = store.get_message("batches", 0, 10 * n, 1)
        assert (message.properties["INNER_NUM"], message.properties["INNER_BASE"]) == ("10", str(10 * n))


@pytest.mark.behaviour("BatchConsumeMessageTest.testGetBatchMessageWithinNumber")
def test_get_batch_message_within_number(store: reput.MessageStore) -> None:
    """Batches of 20, from 5 on: the first comes whatever is asked for, further ones if they fit whole."""
    for _ in range(10):
        store.put_message(batch(20))
    records = {most: len(store.get_message("batches", 0, 5, most).physical_offsets) for most in (1, 20, 39, 40, 60)}
    assert records == {1: 1, 20: 1, 39: 1, 40: 2, 60: 3}


@pytest.mark.behaviour("BatchConsumeMessageTest.testGetBatchMessageWithinSize")
def test_get_batch_message_within_size(store: reput.MessageStore) -> None:
    """The first comes whatever its size, further ones while all are within the size that is asked for."""
    for _ in range(10):
        store.put_message(batch(20, bytes(1024)))
    sizes = (100, 2048, 4096)
    records = {size: len(store.get_message("batches", 0, 5, 1000, max_bytes=size).physical_offsets) for size in sizes}
    assert records == {100: 1, 2048: 1, 4096: 3}


# --- RocksDBConsumeQueueTableTest, CombineConsumeQueueStoreTest ------------------------------------


@pytest.mark.behaviour("RocksDBConsumeQueueTableTest.testBinarySearchInCQByTime")
def test_binary_search_in_cq_by_time() -> None:
    """Offsets 100 to 1000, ten milliseconds apart; UPPER before all is the first offset (RocketMQ's table: 0)."""
    expected = {20_000: (1001, 1000), 1: (100, 100), 2001: (201, 200), 2000: (200, 200)}
    for time, (lower, upper) in expected.items():
        assert offset_by_time(lambda offset: 10 * offset, 100, 1001, time, Boundary.LOWER) == lower
        assert offset_by_time(lambda offset: 10 * offset, 100, 1001, time, Boundary.UPPER) == upper


def double_write(folder: Path) -> Path:
    """A store of both kinds, with 200 messages in a queue."""
    with reput.MessageStore.open(folder / "store", BOTH, create=True) as store:
        for _ in range(200):
            store.put_message(Message("topic", b"x", tags="paid"))
    return folder / "store"


@pytest.mark.behaviour("CombineConsumeQueueStoreTest.testIterator", "RocksdbTransferOffsetAndCqTest.testRocksdbCqWrite")
def test_iterator_of_both_kinds(tmp_path: Path) -> None:
    """Both hold the same entries."""
    store = double_write(tmp_path)
    databases.assert_same_queues(store)
    assert len(databases.entries(databases.rocksdb(store))[KEY]) == 200


@pytest.mark.behaviour("CombineConsumeQueueStoreTest.testInitializeWithOffset")
def test_initialize_with_offset(tmp_path: Path) -> None:
    """A RocksDB whose queue is 100 to 200 and empty, where the files have 0 to 200, is damage that a rebuild mends.

    RocketMQ begins such a queue anew whenever it starts.
    """
    path = double_write(tmp_path)
    with databases.rocksdb(path).open_to_write(fs.owner_of(path)) as written:
        changes = written.batch()
        changes.delete_range(fmt.ENTRY_FAMILY, *fmt.queue_bounds(KEY))
        changes.put(fmt.OFFSET_FAMILY, fmt.offset_key(KEY, fmt.MIN), fmt.encode_offset_value(OffsetValue(0, 100)))
        written.write(changes)
    report = reput.check(path, spark=False, config=BOTH)
    assert report.exit_code == 1
    assert list(reput.diff(path, config=BOTH))
    reput.rebuild(path, spark=False, config=BOTH)
    databases.assert_same_queues(path)
    with reput.MessageStore.open(path, BOTH, read_only=True) as store:
        assert (store.min_offset("topic", 0), store.max_offset("topic", 0)) == (0, 200)


@pytest.mark.behaviour("CombineConsumeQueueStoreTest.testVerifyAndInitOffsetForAllStore")
def test_verify_and_init_offset_for_all_store(tmp_path: Path) -> None:
    """Double write that is turned on later is refused with the command that fills RocksDB; then both are the same."""
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        for _ in range(50):
            store.put_message(Message("topic", b"x", tags="paid"))
    with pytest.raises(UnsupportedStoreError, match="reput convert"):
        reput.MessageStore.open(tmp_path / "store", BOTH, create=True)
    reput.convert(tmp_path / "store", to="both", spark=False, config=CONFIG)
    with reput.MessageStore.open(tmp_path / "store", BOTH, create=True) as store:
        assert store.put_message(Message("topic", b"y")).queue_offset == 50
    databases.assert_same_queues(tmp_path / "store")
    assert len(databases.entries(databases.rocksdb(tmp_path / "store"))[KEY]) == 51
