"""An open store with queues of batches and light message queues, beside a model that is a few lists of Python."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.config import StoreConfig
from reput.errors import ConfigError, DamagedStoreError, UnsupportedStoreError
from reput.formats import paths
from reput.formats.log.record import FLAG_INNER_BATCH
from reput.log.encode.message import Message, PutStatus
from reput.store.metadata.tables import Table
from support import golden, stores
from support.checked import assert_sound
from support.inner import CONFIG, Model, new_store, topics_json
from support.metadata import homes_of
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.behaviour(
    "ConsumeQueueTest.testPutMessagePositionInfoWrapper_MultiQueue",
    "ConsumeQueueTest.testPutMessagePositionInfoMultiQueue",
    "BatchConsumeMessageTest.testEstimateMessageCount",
    "BatchConsumeMessageTest.testEstimateMessageCountSample",
)
@pytest.mark.parametrize("seed", range(6))
def test_model(seed: int, tmp_path: Path) -> None:
    """Put, indexed, closed, reopened and expired in any order, the store holds what the model holds, and is sound."""
    rng, model = random.Random(seed), Model()
    store = new_store(tmp_path / "store")
    for _ in range(60):
        match rng.randrange(12):
            case 0:
                store.reput(spark=False)
            case 1:
                store.close(reput=rng.random() < 0.7)
                store = reput.MessageStore.open(tmp_path / "store", CONFIG, create=True)
            case 2:
                store.reput(spark=False)
                store.delete_expired(manual=True)
            case 3:
                with reput.MessageStore.open(tmp_path / "store", CONFIG, read_only=True) as reader:
                    model.compare(reader, rng)
            case _:
                for _ in range(rng.randrange(1, 12)):
                    model.put(store, rng)
        model.compare(store, rng)
    store.reput(spark=False)
    store.close()
    assert_sound(tmp_path / "store", CONFIG)
    reput.rebuild(tmp_path / "store", spark=False, config=CONFIG)
    assert_sound(tmp_path / "store", CONFIG)
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        model.compare(store, rng)


def test_lookup_by_time(tmp_path: Path) -> None:
    """A time gives a batch's first message: LOWER of the first one at or after it, UPPER of the last at or before."""
    with new_store(tmp_path / "store") as store:
        clock = [1000, 1000, 1000, 1005, 1009]
        base = store.view.log  # keep the appender's clock still
        assert base is not None
        assert store._writing is not None
        found = []
        for time_ms in clock:
            store._writing.appender._end.last_ms = 4_000_000_000_000 + time_ms
            message = Message("batches", b"x", properties={"INNER_NUM": "10"}, sys_flag=FLAG_INNER_BATCH)
            found.append(store.put_message(message).queue_offset)
        assert found == [0, 10, 20, 30, 40]
        at = 4_000_000_000_000
        expected = {0: (0, 0), at + 999: (0, 0), at + 1000: (0, 20), at + 1001: (30, 20), at + 1005: (30, 30)}
        expected |= {at + 1006: (40, 30), at + 1009: (40, 40), at + 1010: (40, 40)}
        for time_ms, (lower, upper) in expected.items():
            assert store.offset_by_time("batches", 0, time_ms, "lower") == lower
            assert store.offset_by_time("batches", 0, time_ms, "upper") == upper


def test_offsets_beyond_what_single_messages_can_have(tmp_path: Path) -> None:
    """Large batches bring a queue's offsets beyond the bound of other queues; a message alone goes on there."""
    with new_store(tmp_path / "store") as store:
        for _ in range(40):
            message = Message("batches", b"x", properties={"INNER_NUM": "32767"}, sys_flag=FLAG_INNER_BATCH)
            assert store.put_message(message).status is PutStatus.PUT_OK
        alone = store.put_message(Message("batches", b"alone"))
        assert alone.queue_offset == 40 * 32767
        assert store.get_message("batches", 0, alone.queue_offset)[0].body == b"alone"
        store.reput(spark=False)
    assert_sound(tmp_path / "store", CONFIG)
    with reput.MessageStore.open(tmp_path / "store", CONFIG, create=True) as store:
        assert store.get_message("batches", 0, alone.queue_offset)[0].body == b"alone"
        assert store.put_message(Message("batches", b"alone")).queue_offset == alone.queue_offset + 1


@pytest.mark.golden
@pytest.mark.parametrize("version", ["json", "v2"])
def test_queues_of_a_deleted_topic_of_batches_kept_a_broker_from_starting(version: str, tmp_path: Path) -> None:
    """A topic that a broker has deleted has no queues of batches: check names them, and a rebuild makes none.

    Version 2 of the metadata lacks topics that a broker makes by itself, which have no attribute.
    """
    store = golden.unpack("batch", tmp_path)
    if version == "json":
        topics_json(store, {"SELF_TEST_TOPIC": {}, "orders": {}})
    else:
        homes = homes_of(store, StoreConfig(config_manager_version=version))
        topics = homes.configurations(Table.TOPICS)
        topics.put("orders", {"topicName": "orders"})
        topics.persist()
        homes.close()
    place = store / paths.BATCH_CONSUME_QUEUE / "batches"
    with pytest.raises(DamagedStoreError, match=f"{place}: queues of type BatchCQ, and the broker has no such topic"):
        reput.MessageStore.open(store, read_only=True)
    found = [one for one in reput.check(store, spark=False).findings if one.rule == "queue-type"]
    assert [one.file for one in found] == [str(place)]

    shutil.rmtree(place)
    assert_sound(store)
    gone = [one.file for one in reput.check(store, spark=False).findings if one.rule == "queue-of-deleted-topic"]
    assert str(store / paths.CONSUME_QUEUE / "batches" / "0") in gone
    reput.rebuild(store, spark=False)
    assert not place.exists()
    assert_sound(store)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("topics", "named"),
    [({"batches": {}}, "batchconsumequeue/batches"), ({"orders": {"queue.type": "BatchCQ"}}, "consumequeue/orders")],
)
def test_a_type_that_its_folder_contradicts(topics: dict[str, dict[str, str]], named: str, tmp_path: Path) -> None:
    """RocketMQ does not load such a store, and neither is it opened; check says so, and a rebuild mends it."""
    store = golden.unpack("batch", tmp_path)
    topics_json(store, topics)
    for read_only in (True, False):
        with pytest.raises(DamagedStoreError, match=named):
            reput.MessageStore.open(store, read_only=read_only)
    report = reput.check(store, spark=False)
    assert [finding.file for finding in report.findings if finding.rule == "queue-type"] == [str(store / named)]
    assert report.exit_code == 1
    reput.rebuild(store, spark=False)
    assert_sound(store)
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert opened.max_offset("batches", 0) > 0


@pytest.mark.golden
def test_batches_in_rocksdb_are_refused(tmp_path: Path) -> None:
    """RocketMQ keeps batches in RocksDB in a way of its own: such a topic is named, and nothing is read or built."""
    store = golden.unpack("rocksdb", tmp_path)
    topics_json(store, {"orders": {"queue.type": "BatchCQ"}})
    for action in (
        lambda: reput.MessageStore.open(store, read_only=True),
        lambda: reput.rebuild(store, spark=False),
        lambda: reput.check(store, spark=False),
    ):
        with pytest.raises(UnsupportedStoreError, match="orders"):
            action()


@pytest.mark.parametrize("settings", [{"store_type": "defaultRocksDB"}, {"rocksdb_cq_double_write_enable": True}])
def test_batches_that_records_alone_tell_are_refused_in_rocksdb(settings: dict[str, Any], tmp_path: Path) -> None:
    """Without topics.json and folders, too: no store comes of it that cannot be opened, and a conversion ends."""
    log = LogBuilder(1 << 14)
    log.message("orders")
    more = {"INNER_NUM": "10", "INNER_BASE": "0"}
    log.message("batches", sys_flag=FLAG_INNER_BATCH, more=more)
    store = log.write(tmp_path / "store")
    config, plain = replace(stores.SMALL, **settings), stores.SMALL

    def refused(*actions: Callable[[], object]) -> None:
        before = stores.digest(store)
        for action in actions:
            with pytest.raises(UnsupportedStoreError, match="topic batches"):
                action()
            assert stores.digest(store) == before

    refused(
        lambda: reput.rebuild(store, spark=False, config=config),
        lambda: reput.MessageStore.open(store, config, read_only=True),
    )
    reput.rebuild(store, spark=False, config=plain)
    shutil.rmtree(store / "batchconsumequeue")
    refused(
        lambda: reput.convert(store, to="rocksdb", spark=False, config=plain),
        lambda: reput.convert(store, to="both", spark=False, config=plain),
    )
    with reput.MessageStore.open(store, plain, read_only=True) as opened:
        assert opened.max_offset("orders", 0) == 1


@pytest.mark.parametrize("text", ["{", "[]", "topics"])
def test_a_damaged_topics_json_is_told(text: str, tmp_path: Path) -> None:
    """A damaged topics.json with a .bak is replaced by it; without one the folders count, and a note says so."""
    path = tmp_path / "store"
    with new_store(path) as store:
        store.put_message(Message("batches", b"x", properties={"INNER_NUM": "5"}, sys_flag=FLAG_INNER_BATCH))
        assert not store.notes
    topics = path / "config" / "topics.json"
    good = topics.read_bytes()
    topics.write_text(text)
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        assert [note for note in store.notes if note.startswith(f"{topics}: damaged")]
        assert store.put_message(Message("batches", b"y")).queue_offset == 5
    (found,) = reput.check(path, spark=False, config=CONFIG).findings
    assert (found.rule, found.file) == ("metadata-damaged", str(topics))
    assert "damaged" in found.detail
    (path / "config" / "topics.json.bak").write_bytes(good)
    with reput.MessageStore.open(path, CONFIG, create=True) as store:
        (note,) = store.notes
    assert note.endswith(f"Topics were read from {topics}.bak, which is older")
    assert reput.check(path, spark=False, config=CONFIG).sound


def test_an_unknown_type_is_an_error(tmp_path: Path) -> None:
    """A queue.type that RocketMQ does not know is named, with the file that has it."""
    new_store(tmp_path / "store").close()
    topics_json(tmp_path / "store", {"orders": {"queue.type": "FancyCQ"}})
    with pytest.raises(ConfigError, match=r"topics\.json.*orders.*FancyCQ"):
        reput.MessageStore.open(tmp_path / "store", CONFIG, create=True)


@pytest.mark.golden
def test_a_lost_folder_is_read_from_the_log(tmp_path: Path) -> None:
    """A lost folder of queues of batches that topics.json names is replaced by the log's answers."""
    store = golden.unpack("batch", tmp_path)
    topics_json(store, {"batches": {"queue.type": "BatchCQ"}})
    (store / paths.BATCH_CONSUME_QUEUE).rename(tmp_path / "gone")
    wanted = {tuple(line["queue"]): line["max"] for line in golden.answers("batch") if "queue" in line}
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert {(info.topic, info.queue_id): info.max_offset for info in opened.queues()} == wanted
