"""RocketMQ's own tests of its message store: one of ours for each behaviour, with queues in files and in RocksDB."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from itertools import count, pairwise
from typing import TYPE_CHECKING

import pytest

import reput
from reput.config import StoreConfig, parse_properties
from reput.errors import DamagedLogError, StoreLockedError
from reput.files import disk_space, fs
from reput.formats import paths
from reput.formats.checkpoint import Checkpoint, encode_checkpoint
from reput.formats.index import index_file
from reput.formats.log.record import FLAG_BORN_HOST_V6, FLAG_INNER_BATCH, Host
from reput.log.append import append
from reput.log.encode.message import PropertyEncoder
from reput.store.disk.checkpoint import read_checkpoint
from support import inner, opened, stores
from support.checked import assert_sound
from support.opened import CONFIG, bodies, forget_known_good, put
from support.switches import config_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROCKSDB = config_of("rocksdb", CONFIG)
KINDS = pytest.mark.parametrize("config", [CONFIG, ROCKSDB], ids=["file", "rocksdb"])
OK, ILLEGAL = reput.PutStatus.PUT_OK, reput.PutStatus.MESSAGE_ILLEGAL
V6 = Host(bytes(range(16)), 7)
BEGIN_MS, APART_MS, PATIENCE_S = 1_700_000_000_000, 10, 60


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock by which each message is stored 10 ms or more after the one before: a put may read it twice."""
    clock = count(BEGIN_MS, APART_MS)
    monkeypatch.setattr(append, "_time_ns", lambda: next(clock) * 1_000_000)


@pytest.fixture(params=[CONFIG, ROCKSDB], ids=["file", "rocksdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[reput.MessageStore]:
    """A new store of small files; sound when the test is over."""
    with reput.MessageStore.open(tmp_path / "store", request.param, create=True) as opened_store:
        yield opened_store
    assert_sound(tmp_path / "store", request.param)


def log_files(root: Path) -> list[Path]:
    """List the files of a store's log in their order."""
    return sorted((root / paths.COMMIT_LOG).iterdir())


def put_both_hosts(store: reput.MessageStore) -> list[reput.PutResult]:
    """Put five messages with IPv4 hosts and five with IPv6 hosts; their bodies are their numbers."""
    hosts = [None] * 5 + [V6] * 5
    return [
        store.put_message(reput.Message("t", b"%d" % number, tags="a", born_host=host))
        for number, host in enumerate(hosts)
    ]


@pytest.mark.behaviour("DefaultMessageStoreTest.test_repeat_restart", "RocksDBMessageStoreTest.test_repeat_restart")
def test_repeat_restart(store: reput.MessageStore) -> None:
    """A store that is open to write is not opened a second time, and goes on."""
    with pytest.raises(StoreLockedError):
        reput.MessageStore.open(store.layout.root, store.config, create=True)
    put(store, 1)


@pytest.mark.behaviour("DefaultMessageStoreTest.testWriteAndRead", "RocksDBMessageStoreTest.testWriteAndRead")
def test_write_and_read(store: reput.MessageStore) -> None:
    """Messages with IPv4 and with IPv6 hosts in one queue are all readable by their offsets, indexed or not."""
    put_both_hosts(store)
    for indexed in (False, True):
        if indexed:
            store.reput(spark=False)
        for offset in range(10):
            (message,) = store.get_message("t", 0, offset, 1)
            assert (message.queue_offset, message.body) == (offset, b"%d" % offset)
            assert bool(message.sys_flag & FLAG_BORN_HOST_V6) == (offset >= 5)


@pytest.mark.behaviour(
    "DefaultMessageStoreTest.testLookMessageByOffset_OffsetIsFirst",
    "RocksDBMessageStoreTest.testLookMessageByOffset_OffsetIsFirst",
    "DefaultMessageStoreTest.testLookMessageByOffset_OffsetIsLast",
    "RocksDBMessageStoreTest.testLookMessageByOffset_OffsetIsLast",
    "DefaultMessageStoreTest.testLookMessageByOffset_OffsetIsOutOfBound",
    "RocksDBMessageStoreTest.testLookMessageByOffset_OffsetIsOutOfBound",
)
def test_look_message_by_offset(store: reput.MessageStore) -> None:
    """The first and last record are found by their places; at the end of the log, and far past it, there is none."""
    placed = put_both_hosts(store)
    for number in (0, 9):
        message = store.message_at(placed[number].physical_offset)
        assert message is not None
        assert message.body == b"%d" % number
    for outside in (placed[-1].end_offset, 1 << 40):
        assert store.message_at(outside) is None


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.behaviour(
    "DefaultMessageStoreTest.testGetOffsetInQueueByTime",
    "RocksDBMessageStoreTest.testGetOffsetInQueueByTime",
    "DefaultMessageStoreTest.testGetOffsetInQueueByTime_TimestampIsSkewing",
    "RocksDBMessageStoreTest.testGetOffsetInQueueByTime_TimestampIsSkewing",
    "DefaultMessageStoreTest.testGetOffsetInQueueByTime_TimestampSkewingIsLarge",
    "RocksDBMessageStoreTest.testGetOffsetInQueueByTime_TimestampSkewingIsLarge",
    "DefaultMessageStoreTest.testGetMessageStoreTimeStamp",
    "RocksDBMessageStoreTest.testGetMessageStoreTimeStamp",
    "DefaultMessageStoreTest.testGetStoreTime_EverythingIsOk",
    "RocksDBMessageStoreTest.testGetStoreTime_EverythingIsOk",
)
@pytest.mark.parametrize("indexed", [False, True])
def test_get_offset_in_queue_by_time(indexed: bool, store: reput.MessageStore) -> None:
    """A message's own time, and one shortly before it, find it; a time long before finds the first of all."""
    placed = put_both_hosts(store)
    if indexed:
        store.reput(spark=False)
    assert [store.store_time("t", 0, offset) for offset in range(10)] == [one.store_timestamp for one in placed]
    assert all(after.store_timestamp - before.store_timestamp >= APART_MS for before, after in pairwise(placed))
    for offset, one in enumerate(placed):
        assert store.offset_by_time("t", 0, one.store_timestamp) == offset
        assert store.offset_by_time("t", 0, one.store_timestamp - 2) == offset
        assert store.offset_by_time("t", 0, one.store_timestamp - 20_000) == 0


@pytest.mark.behaviour(
    "DefaultMessageStoreTest.testGetOffsetInQueueByTime_ConsumeQueueNotFound1",
    "RocksDBMessageStoreTest.testGetOffsetInQueueByTime_ConsumeQueueNotFound1",
    "DefaultMessageStoreTest.testGetOffsetInQueueByTime_ConsumeQueueNotFound2",
    "RocksDBMessageStoreTest.testGetOffsetInQueueByTime_ConsumeQueueNotFound2",
    "DefaultMessageStoreTest.testGetOffsetInQueueByTime_ConsumeQueueOffsetNotExist",
    "RocksDBMessageStoreTest.testGetOffsetInQueueByTime_ConsumeQueueOffsetNotExist",
)
def test_get_offset_in_queue_by_time_consume_queue_not_found(store: reput.MessageStore) -> None:
    """In a queue that is not there any time finds 0; there, and at offset -1, the store time is -1."""
    first, *_ = put_both_hosts(store)
    store.reput(spark=False)
    assert store.offset_by_time("t", 1, first.store_timestamp) == 0
    assert [store.store_time("t", queue_id, offset) for queue_id, offset in ((1, 0), (1, -1), (0, -1))] == [-1] * 3


@pytest.mark.behaviour(
    "DefaultMessageStoreTest.testGetStoreTime_PhyOffsetIsLessThanCommitLogMinOffset",
    "RocksDBMessageStoreTest.testGetStoreTime_PhyOffsetIsLessThanCommitLogMinOffset",
)
@KINDS
def test_get_store_time_below_the_logs_min(config: StoreConfig, tmp_path: Path) -> None:
    """The store time of a message that the log has no more is -1."""
    small = replace(config, mapped_file_size_commit_log=1 << 12, file_reserved_time=0)
    with reput.MessageStore.open(tmp_path / "store", small, create=True) as store:
        put(store, 100)
        store.reput(spark=False)
        assert store.store_time("t", 0, 0) > 0
        assert store.delete_expired(manual=True)
        assert store.store_time("t", 0, 0) == -1
        assert store.store_time("t", 0, 99) > 0


@pytest.mark.behaviour(
    "DefaultMessageStoreTest.testPutMessage_whenMessagePropertyIsTooLong",
    "RocksDBMessageStoreTest.testPutMessage_whenMessagePropertyIsTooLong",
)
def test_put_message_when_message_property_is_too_long(store: reput.MessageStore) -> None:
    """Properties that are too long use up no queue offset: the next put has 0."""
    refused = store.put_message(reput.Message("t", b"123", properties={"p": "7" * 32768}))
    assert refused.status is reput.PutStatus.PROPERTIES_SIZE_EXCEEDED
    assert store.max_offset("t", 0) == 0
    assert store.put_message(reput.Message("t", b"123", properties={"p": "7" * 100})).queue_offset == 0
    assert store.max_offset("t", 0) == 1


@pytest.fixture
def closed_gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event that every sync of the disk waits for."""
    gate, true = threading.Event(), fs.sync_data

    def sync(descriptor: int) -> None:
        assert gate.wait(PATIENCE_S)
        true(descriptor)

    monkeypatch.setattr(fs, "sync_data", sync)
    yield gate
    gate.set()


@pytest.mark.behaviour(
    "DefaultMessageStoreTest.testMaxOffset",
    "RocksDBMessageStoreTest.testMaxOffset",
    "DefaultMessageStoreTest.testGroupCommit",
    "RocksDBMessageStoreTest.testGroupCommit",
    "ReputMessageServiceTest.testReputEndOffset_whenSyncFlush",
)
@KINDS
def test_reput_end_offset_when_sync_flush(config: StoreConfig, closed_gate: threading.Event, tmp_path: Path) -> None:
    """With sync flush messages have their numbers, and are visible when they are durable and not before."""
    sync = replace(config, flush_disk_type="SYNC_FLUSH")
    with reput.MessageStore.open(tmp_path / "store", sync, create=True) as store:
        futures = [store.put_message_async(reput.Message("t", b"x")) for _ in range(10)]
        assert store.max_offset("t", 0) == 0
        assert store.get_message("t", 0, 0).status in {
            reput.GetStatus.NO_MESSAGE_IN_QUEUE,
            reput.GetStatus.NO_MATCHED_LOGIC_QUEUE,
        }
        closed_gate.set()
        assert [future.result(PATIENCE_S).queue_offset for future in futures] == list(range(10))
        assert store.max_offset("t", 0) == len(store.get_message("t", 0, 0)) == 10
    assert_sound(tmp_path / "store", sync)


@pytest.mark.behaviour("ReputMessageServiceTest.testReputEndOffset_whenAsyncFlush")
@KINDS
def test_reput_end_offset_when_async_flush(config: StoreConfig, closed_gate: threading.Event, tmp_path: Path) -> None:
    """With async flush all messages are readable at once, though nothing is flushed."""
    with reput.MessageStore.open(tmp_path / "store", config, create=True) as store:
        put(store, 10)
        assert store.flushed_offset == 0
        assert len(store.get_message("t", 0, 0)) == 10
        closed_gate.set()


@pytest.mark.behaviour("DefaultMessageStoreTest.testPullSize", "RocksDBMessageStoreTest.testPullSize")
def test_pull_size(tmp_path: Path) -> None:
    """A pull gives as many messages as it asks for, with queues of either kind."""
    for name, kind in (("file", {}), ("rocksdb", {"store_type": "defaultRocksDB"})):
        with reput.MessageStore.open(tmp_path / name, StoreConfig(**kind), create=True) as store:  # type: ignore[arg-type]
            put(store, 50)
            store.reput(spark=False)
            assert [len(store.get_message("t", 0, 0, most)) for most in (32, 20, 10)] == [32, 20, 10]


def damage_last(path: Path, place: int) -> None:
    """Put garbage over the head of the log's last record."""
    size = CONFIG.mapped_file_size_commit_log
    assert size is not None
    with (path / paths.COMMIT_LOG / paths.offset_name(place // size * size)).open("r+b") as file:
        file.seek(place % size + 4)
        file.write(b"\xff" * 4)


@pytest.mark.behaviour("DefaultMessageStoreTest.testRecover", "RocksDBMessageStoreTest.testRecover")
@pytest.mark.parametrize("end", ["clean", "damaged", "damaged and crashed"])
@KINDS
def test_recover(config: StoreConfig, end: str, tmp_path: Path) -> None:
    """A restart keeps all; a damaged last record that nothing calls durable is cut from log and queues after a crash.

    RocketMQ cuts it after a clean end, too, though its queue says that the record was whole. reput refuses to.
    """
    path = tmp_path / "store"
    with reput.MessageStore.open(path, config, create=True) as store:
        placed = put(store, 100)
    kept = 100
    if end != "clean":
        damage_last(path, placed[-1])
        # reput cuts nothing that its marks or the checkpoint call durable; RocketMQ asks neither.
        forget_known_good(path)
        kept = 99
    if end == "damaged":
        with pytest.raises(DamagedLogError, match="of this closed store has an entry"):
            reput.MessageStore.open(path, config)
        return
    if end == "damaged and crashed":
        (path / paths.ABORT).touch()
    with reput.MessageStore.open(path, config, create=True) as store:
        assert store.max_offset("t", 0) == kept
        assert bodies(store) == [b"%d" % number for number in range(kept)]
        put(store, 5)
        store.reput(spark=False)
        assert store.max_offset("t", 0) == kept + 5
    assert_sound(path, config)


@pytest.mark.behaviour(
    "DefaultMessageStoreTest.testPutMsgExceedsMaxLength",
    "RocksDBMessageStoreTest.testPutMsgExceedsMaxLength",
    "DefaultMessageStoreTest.testPutMsgBatchExceedsMaxLength",
    "RocksDBMessageStoreTest.testPutMsgBatchExceedsMaxLength",
)
def test_put_msg_exceeds_max_length(store: reput.MessageStore) -> None:
    """A body over the limit is refused, alone and in a batch, and nothing of the batch is stored."""
    too_long = reput.Message("t", bytes((4 << 20) + 1))
    assert store.put_message(too_long).status is ILLEGAL
    many = store.put_messages([reput.Message("t", b"x"), too_long])
    assert (many.status, store.max_offset("t", 0)) == (ILLEGAL, 0)
    assert "message 1" in many.reason


@pytest.mark.behaviour("DefaultMessageStoreTest.testPutLongMessage", "RocksDBMessageStoreTest.testPutLongMessage")
@KINDS
def test_put_long_message(config: StoreConfig, tmp_path: Path) -> None:
    """Body, topic and properties of just their limits are stored; beyond them each is refused with its status."""
    wide = replace(config, mapped_file_size_commit_log=8 << 20)
    body, topic = bytes(4 << 20), "t" * 127
    properties = {"p": "v" * (32767 - len("p") - 2)}
    assert len(PropertyEncoder().encode(reput.Message(topic, body, properties=properties))) == 32767
    with reput.MessageStore.open(tmp_path / "store", wide, create=True) as store:
        assert store.put_message(reput.Message(topic, body, properties=properties)).status is OK
        longer = {"p": properties["p"] + "v"}
        refused = {
            ILLEGAL: [
                reput.Message(topic, body + b"x"),
                reput.Message(topic, body + bytes(1 << 16)),
                reput.Message("t" * 32767, b""),
            ],
            reput.PutStatus.PROPERTIES_SIZE_EXCEEDED: [reput.Message(topic, b"", properties=longer)],
        }
        for status, messages in refused.items():
            assert [store.put_message(message).status for message in messages] == [status] * len(messages)
        assert store.max_offset(topic, 0) == 1


@pytest.mark.behaviour(
    "DefaultMessageStoreTest.testGetBulkCommitLogData", "RocksDBMessageStoreTest.testGetBulkCommitLogData"
)
@KINDS
def test_get_bulk_commit_log_data(config: StoreConfig, tmp_path: Path) -> None:
    """Ten large messages over the ends of files are all found, in order, by a walk over the log."""
    wide = replace(config, mapped_file_size_commit_log=1 << 20)
    with reput.MessageStore.open(tmp_path / "store", wide, create=True) as store:
        placed = [store.put_message(reput.Message("t", bytes([n]) * 400_000)).physical_offset for n in range(10)]
    assert len(log_files(tmp_path / "store")) > 3
    found = list(reput.scan(tmp_path / "store"))
    assert [offset for batch in found for offset in batch.column("physicalOffset").to_pylist()] == placed
    bodies_found = [body for batch in found for body in batch.column("body").to_pylist()]
    assert bodies_found == [bytes([n]) * 400_000 for n in range(10)]


@pytest.mark.behaviour("DefaultMessageStoreTest.testDeleteTopics", "RocksDBMessageStoreTest.testDeleteTopics")
def test_delete_topics(store: reput.MessageStore) -> None:
    """Deleted topics have no queues any more, the others keep theirs."""
    for topic in ("a", "b", "c"):
        put(store, 3, topic)
        put(store, 3, topic, 1)
    store.reput(spark=False)
    for topic in ("a", "c"):
        assert store.delete_topic(topic) == [0, 1]
    assert {(one.topic, one.queue_id) for one in store.queues()} == {("b", 0), ("b", 1)}


@pytest.mark.behaviour("DefaultMessageStoreTest.testChangeStoreConfig")
def test_change_store_config() -> None:
    """Properties set switches and sizes of a configuration."""
    text = "rocksdbCQDoubleWriteEnable=true\nmappedFileSizeConsumeQueue=2000\n"
    config = StoreConfig.from_properties(parse_properties(text))
    assert (config.rocksdb_cq_double_write_enable, config.mapped_file_size_consume_queue) == (True, 2000)


# --- DefaultMessageStoreShutDownTest, StoreCheckpointTest, GetMessageResultTest ----------------------


@pytest.mark.behaviour("DefaultMessageStoreShutDownTest.testDispatchBehindWhenShutdown")
@KINDS
def test_dispatch_behind_when_shutdown(config: StoreConfig, tmp_path: Path) -> None:
    """A store that is closed before all is indexed keeps its abort file; a later close takes it away."""
    path = tmp_path / "store"
    store = reput.MessageStore.open(path, config, create=True)
    put(store, 10)
    store.close(reput=False)
    assert (path / paths.ABORT).exists()
    reput.MessageStore.open(path, config, create=True).close()
    assert not (path / paths.ABORT).exists()


@pytest.mark.behaviour("StoreCheckpointTest.testWriteAndRead")
def test_checkpoint_write_and_read(tmp_path: Path) -> None:
    """A closed store's checkpoint has times of its last messages; its least time is 3 s before the earlier of two."""
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        put(store, 10)
        last = store.store_time("t", 0, 9)
        layout = store.layout
    checkpoint = read_checkpoint(layout)
    assert checkpoint.logics_msg_timestamp == last
    assert checkpoint.min_timestamp == min(checkpoint.physic_msg_timestamp, last) - 3000
    values = Checkpoint(9000, 8000, 7000, 1, 2, 3)
    layout.checkpoint.write_bytes(encode_checkpoint(values))
    assert read_checkpoint(layout) == values
    assert values.min_timestamp == 5000


@pytest.mark.behaviour("GetMessageResultTest.testAddMessage")
def test_add_message(tmp_path: Path) -> None:
    """A pull of a batch of two and two messages alone has three records; its offsets span four messages."""
    with inner.new_store(tmp_path / "store") as store:
        for number in (2, 1, 1):
            store.put_message(
                reput.Message("batches", b"x", properties={"INNER_NUM": str(number)}, sys_flag=FLAG_INNER_BATCH)
            )
        got = store.get_message("batches", 0, 0)
        assert (len(got), len(got.physical_offsets), got.next_offset) == (3, 3, 4)
        assert got.total_bytes == sum(got.sizes.tolist())


# --- DefaultMessageStoreCleanFilesTest ---------------------------------------------------------------

PER_FILE = 7
EXPIRY = StoreConfig(
    mapped_file_size_commit_log=1 << 12,
    mapped_file_size_consume_queue=PER_FILE * 20,
    max_hash_slot_num=16,
    max_index_num=PER_FILE + 1,
    file_reserved_time=1,
    delete_when=f"{(time.localtime().tm_hour + 12) % 24:02d}",
    clean_resource_interval=1 << 30,
)
"""A message fills a file of the log, seven a queue file and an IndexFile."""


def filled(folder: Path, disk_percent: int, monkeypatch: pytest.MonkeyPatch, **settings: object) -> reput.MessageStore:
    """A store of 55 messages on a disk of this use, 15 of whose log files have expired."""
    monkeypatch.setattr(disk_space, "disk_use", lambda _: disk_space.DiskUse(disk_percent, 100 - disk_percent))
    store = reput.MessageStore.open(folder / "store", replace(EXPIRY, **settings), create=True)  # type: ignore[arg-type]
    for number in range(55):
        assert store.put_message(reput.Message("t", bytes(3800), keys=f"k{number}")).status is OK
    store.reput(spark=False)
    store.flush()
    for file in log_files(folder / "store")[:15]:
        os.utime(file, (1000, 1000))
    return store


def numbers_of_files(store: reput.MessageStore) -> tuple[int, int, int]:
    """Count the files of log, queue and index."""
    root = store.layout.root
    queue_files = list((root / paths.CONSUME_QUEUE / "t" / "0").iterdir())
    return len(log_files(root)), len(queue_files), len(list((root / paths.INDEX).iterdir()))


@pytest.mark.behaviour(
    "DefaultMessageStoreCleanFilesTest.testDeleteExpiredFilesByTimeUp",
    "DefaultMessageStoreCleanFilesTest.testDeleteExpiredFilesBySpaceFull",
    "DefaultMessageStoreCleanFilesTest.testDeleteExpiredFilesManually",
)
@pytest.mark.parametrize("why", ["time", "space", "manual"])
def test_delete_expired_files(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 15 expired log files 10 go, then 5, then none; queue files and IndexFiles follow by sevens."""
    settings = {"delete_when": ";".join(f"{hour:02d}" for hour in range(24))} if why == "time" else {}
    with filled(tmp_path, 76 if why == "space" else 10, monkeypatch, **settings) as store:
        assert numbers_of_files(store) == (55, 8, 8)
        for gone, all_gone in ((10, 10), (5, 15), (0, 15)):
            assert len(store.delete_expired(manual=why == "manual")) == gone
            whole = all_gone // PER_FILE
            assert numbers_of_files(store) == (55 - all_gone, 8 - whole, 8 - whole)
            assert store.min_offset("t", 0) == all_gone
    assert_sound(tmp_path / "store", EXPIRY)


@pytest.mark.behaviour("DefaultMessageStoreCleanFilesTest.testDeleteFilesImmediatelyBySpaceFull")
def test_delete_files_immediately_by_space_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that is too full 10 files a run go, expired or not, up to the last one."""
    with filled(tmp_path, 87, monkeypatch, clean_file_forcibly_enable=True) as store:
        for left in (45, 35, 25, 15, 5, 1):
            assert store.delete_expired()
            assert numbers_of_files(store)[0] == left
        assert store.delete_expired() == []
    assert_sound(tmp_path / "store", EXPIRY)


@pytest.mark.behaviour(
    "DefaultMessageStoreCleanFilesTest.testIsSpaceFullFunctionEmpty2Full",
    "DefaultMessageStoreCleanFilesTest.testIsSpaceFullFunctionFull2Empty",
)
def test_is_space_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk over the warning ratio refuses puts, and with room again they go on."""
    with filled(tmp_path, 10, monkeypatch) as store:
        for percent, status in ((91, reput.PutStatus.DISK_FULL), (10, OK)):
            monkeypatch.setattr(disk_space, "disk_use", lambda _, used=percent: disk_space.DiskUse(used, 100 - used))
            store.delete_expired()
            assert store.put_message(reput.Message("t", b"x")).status is status


# --- IndexFileTest, IndexServiceTest -----------------------------------------------------------------


@pytest.mark.behaviour("IndexFileTest.testPutKey", "IndexFileTest.testSelectPhyOffset")
def test_put_key(tmp_path: Path) -> None:
    """An IndexFile of 400 items holds 399, the next key goes to another one, and each key finds its one record."""
    config = replace(CONFIG, max_hash_slot_num=100, max_index_num=400)
    with reput.MessageStore.open(tmp_path / "store", config, create=True) as store:
        placed = [store.put_message(reput.Message("t", b"x", keys=str(n))).physical_offset for n in range(400)]
        store.reput(spark=False)
        counts = [header.index_count - 1 for header in stores.headers(tmp_path / "store")]
        assert counts == [399, 1]
        assert index_file.capacity(400) == 399
        for number in (0, 60, 398, 399):
            assert store.query_message("t", str(number)).physical_offsets == [placed[number]]


@pytest.mark.behaviour("IndexServiceTest.testQueryOffsetThrow")
def test_query_offset_throw(store: reput.MessageStore) -> None:
    """A huge number of wanted answers is no error, and none of a key that is not there is none."""
    put(store, 3, keys="k")
    store.reput(spark=False)
    assert len(store.query_message("t", "k", (1 << 31) - 1)) == 3
    assert len(store.query_message("t", "other", (1 << 31) - 1)) == 0


# --- queue/RocksDBConsumeQueueTest, RocksDBConsumeQueueOffsetTableTest ---------------------------------


@pytest.mark.behaviour("RocksDBConsumeQueueTest.testIterator", "RocksDBConsumeQueueOffsetTableTest.testForEach")
def test_rocksdb_iterator(tmp_path: Path) -> None:
    """From 9000 of 10,000 there are 1000 messages; a long topic's end is known after a restart."""
    config, topic = StoreConfig(store_type="defaultRocksDB", mapped_file_size_commit_log=1 << 22), "t" * 255
    with reput.MessageStore.open(tmp_path / "store", config, create=True) as store:
        for _ in range(10):
            store.put_messages([reput.Message(topic, b"x")] * 1000)
    with reput.MessageStore.open(tmp_path / "store", config, read_only=True) as store:
        assert store.max_offset(topic, 0) == 10_000
        found, offset = 0, 9000
        while (got := store.get_message(topic, 0, offset)).status is reput.GetStatus.FOUND:
            found, offset = found + len(got), got.next_offset
        assert (found, offset) == (1000, 10_000)


# --- PullMessageProcessorTest --------------------------------------------------------------------------


@pytest.mark.behaviour(
    "PullMessageProcessorTest.testProcessRequest_TopicNotExist",
    "PullMessageProcessorTest.testProcessRequest_Found",
    "PullMessageProcessorTest.testProcessRequest_NoMsgInQueue",
)
def test_process_request(store: reput.MessageStore) -> None:
    """A topic that is not there, messages that are, and an offset that no message has: each its own status."""
    put(store, 3)
    assert opened.pulled(store)[0].body == b"0"
    assert store.get_message("t", 0, 0).status is reput.GetStatus.FOUND
    assert store.get_message("unknown", 0, 123).status is reput.GetStatus.NO_MATCHED_LOGIC_QUEUE
    moved = store.get_message("t", 0, 123)
    assert (moved.status, moved.next_offset) == (reput.GetStatus.OFFSET_OVERFLOW_BADLY, 3)


@pytest.mark.behaviour("PullMessageProcessorTest.testProcessRequest_MsgWasRemoving")
@KINDS
def test_process_request_msg_was_removing(config: StoreConfig, tmp_path: Path) -> None:
    """A pull over an entry whose record has gone from the log continues with what the log still has."""
    small = replace(config, mapped_file_size_commit_log=1 << 12, file_reserved_time=0)
    with reput.MessageStore.open(tmp_path / "store", small, create=True) as store:
        put(store, 100)
        store.reput(spark=False)
        assert store.delete_expired(manual=True)
        first = store.min_offset("t", 0)
        too_small = store.get_message("t", 0, 0)
        assert (too_small.status, too_small.next_offset) == (reput.GetStatus.OFFSET_TOO_SMALL, first)
        assert store.get_message("t", 0, first)[0].queue_offset == first
