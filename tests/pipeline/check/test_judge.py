"""check judges queues of every kind by the same rules: the same fault has the same rule and severity in each."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import reput
from reput.files import fs
from reput.formats import paths
from reput.formats.log.record import FLAG_INNER_BATCH
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY_SIZE
from reput.formats.queue.consume_queue import ENTRY_SIZE, QueueKey
from support import databases, stores
from support.records import LogBuilder
from support.switches import config_of

if TYPE_CHECKING:
    from pathlib import Path

    from reput.config import StoreConfig

KINDS = ("file", "rocksdb", "batches")
QUEUE = QueueKey(b"orders", 0)
ENTRIES = 12


def settings(kind: str) -> StoreConfig:
    """The settings of a store with queues of a kind; a file has five batches."""
    base = stores.SMALL.updated([f"mapperFileSizeBatchConsumeQueue={5 * BATCH_ENTRY_SIZE}"])
    return base if kind == "batches" else config_of(kind, base)


def entry(log: LogBuilder, kind: str, number: int, topic: str = "orders") -> None:
    """A record with one entry in a queue of the kind."""
    if kind == "batches":
        more = {"INNER_NUM": "2", "INNER_BASE": str(2 * number)}
        log.message(topic, sys_flag=FLAG_INNER_BATCH, queue_offset=2 * number, more=more)
    else:
        log.message(topic, queue_offset=number)


def built(folder: Path, kind: str, *topics: str) -> Path:
    """A store in which each of the topics, one after the other, has a queue of the kind; others have queue files."""
    log = LogBuilder()
    for topic in topics:
        for number in range(ENTRIES if topic == "orders" else 1):
            entry(log, kind if topic == "orders" else "file", number, topic)
    store = stores.with_log(folder, log)
    types = {"attributes": {"queue.type": "BatchCQ"}} if kind == "batches" else {}
    (store / "config").mkdir()
    table = {"topicConfigTable": {topic: types if topic == "orders" else {} for topic in topics}}
    (store / "config" / "topics.json").write_text(json.dumps(table))
    stores.rebuild(store, settings(kind))
    # Without reput's own files the store is one that a broker wrote.
    shutil.rmtree(store / "reput")
    return store


def lose(store: Path, kind: str, begin: int = 0, end: int = ENTRIES) -> None:
    """Take the entries [begin, end) from the queue; all entries with the queue itself."""
    if kind == "rocksdb":
        with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
            batch = database.batch()
            for number in range(begin, end):
                batch.delete(fmt.ENTRY_FAMILY, fmt.entry_key(QUEUE, number))
            if end - begin == ENTRIES:
                batch.delete(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MAX))
            database.write(batch)
        return
    folder = store / (paths.BATCH_CONSUME_QUEUE if kind == "batches" else paths.CONSUME_QUEUE) / "orders" / "0"
    if end - begin == ENTRIES:
        shutil.rmtree(folder)
        return
    size = BATCH_ENTRY_SIZE if kind == "batches" else ENTRY_SIZE
    for path in folder.iterdir():
        data, start = bytearray(path.read_bytes()), int(path.name)
        low, high = max(begin * size - start, 0), min(end * size - start, len(data))
        if low < high:
            data[low:high] = bytes(high - low)
            path.write_bytes(data)


def found(store: Path, kind: str) -> list[tuple[str, str, int]]:
    """Rule, severity and count of each finding but notes, of a check that names the queue in each."""
    report = reput.check(store, spark=False, config=settings(kind))
    findings = [one for one in report.findings if one.severity != "note"]
    assert all("orders/0" in f"{one.file} {one.detail}" for one in findings)
    return [(one.rule, one.severity, one.count) for one in findings]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("begin", "end", "rule", "after_crash"),
    [
        (0, 2, "queue-entry-missing", "damage"),
        (4, 8, "queue-entry-missing", "damage"),
        (9, ENTRIES, "queue-out-of-date", "leftover"),
    ],
)
def test_entries_are_missing(kind: str, begin: int, end: int, rule: str, after_crash: str, tmp_path: Path) -> None:
    """A crash explains entries that are missing at a queue's end, and none before that."""
    store = built(tmp_path, kind, "orders")
    lose(store, kind, begin, end)
    assert found(store, kind) == [(rule, "damage", end - begin)]
    (store / paths.ABORT).touch()
    assert found(store, kind) == [(rule, after_crash, end - begin)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_is_lost(kind: str, tmp_path: Path) -> None:
    """A queue of which nothing is there is damage, and one finding has all queues that are lost."""
    store = built(tmp_path, kind, "orders", "payments")
    lose(store, kind)
    assert found(store, kind) == [("queue-missing", "damage", 1)]


def test_a_batch_lost_in_the_middle_was_a_leftover_after_a_crash(tmp_path: Path) -> None:
    """Batches whose entries are missing between others were called out of date, and after a crash no damage."""
    store = built(tmp_path, "batches", "orders")
    lose(store, "batches", 3, 4)
    (store / paths.ABORT).touch()
    assert not reput.check(store, spark=False, config=settings("batches")).sound


@pytest.mark.parametrize("kind", ["file", "batches"])
def test_a_queue_of_batches_that_a_killed_broker_had_not_reached_was_damage(kind: str, tmp_path: Path) -> None:
    """A queue whose records come after all entries of other queues waits for its folder, of whatever kind it is."""
    store = built(tmp_path, kind, "payments", "orders")
    lose(store, kind)
    (store / paths.ABORT).touch()
    assert found(store, kind) == [("queue-out-of-date", "leftover", ENTRIES)]


def test_a_queue_that_is_lost_before_an_entry_of_batches_was_a_leftover(tmp_path: Path) -> None:
    """An entry of a queue of batches shows, too, how far a killed broker had come: queues before it are lost."""
    store = built(tmp_path, "batches", "payments", "orders")
    shutil.rmtree(store / paths.CONSUME_QUEUE / "payments" / "0")
    (store / paths.ABORT).touch()
    report = reput.check(store, spark=False, config=settings("batches"))
    assert [(one.rule, one.severity) for one in report.findings if one.severity != "note"] == [
        ("queue-missing", "damage")
    ]


def test_a_queue_in_rocksdb_with_entries_was_called_one_without(tmp_path: Path) -> None:
    """A queue whose `max` is lost with its last entries is out of date: it has its other entries."""
    store = built(tmp_path, "rocksdb", "orders", "payments")
    lose(store, "rocksdb", 9)
    with databases.rocksdb(store).open_to_write(fs.owner_of(store)) as database:
        batch = database.batch()
        batch.delete(fmt.OFFSET_FAMILY, fmt.offset_key(QUEUE, fmt.MAX))
        database.write(batch)
    assert found(store, "rocksdb") == [("queue-out-of-date", "damage", 3)]
