"""Exhibits about ConsumeQueues: entries that are missing, shifted, left over, or of another topic."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from reput.formats import paths
from reput.formats.queue.consume_queue import ENTRY, ENTRY_SIZE, decode_entry
from reput.formats.queue.consume_queue_ext import address_of, decode_unit, is_address
from support import golden, stores
from support.encoders import encode_ext_unit
from support.museum.made import FILE_SIZE, built, crashed, golden_store, orders
from support.records import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE_ENTRIES = 10
"""Entries of a queue file of the stores that are built here."""
LEFT_OUT = 12
"""The queue offset whose entry is missing, so that all later entries are one place early."""


def _queue(store: Path, topic: str, queue_id: int = 0, folder: str = paths.CONSUME_QUEUE) -> list[Path]:
    """List the files of a queue."""
    return sorted((store / folder / topic / str(queue_id)).iterdir())


def entry_left_out(folder: Path) -> None:
    """Leave one message out of its queue: the entries of the messages after it come one place early."""
    log = LogBuilder(FILE_SIZE)
    orders(log, 30)
    store = built(folder, log)
    files = _queue(store, "orders")
    data = b"".join(path.read_bytes() for path in files)
    at = LEFT_OUT * ENTRY_SIZE
    data = (data[:at] + data[at + ENTRY_SIZE :]).ljust(len(data), b"\0")
    for number, path in enumerate(files):
        path.write_bytes(data[number * 200 : number * 200 + 200])


def last_file_lost(folder: Path) -> None:
    """Remove the last file of one queue, as the reporter did."""
    store = golden_store(folder, "basic")
    _queue(store, "orders")[-1].unlink()


def all_queues_lost(folder: Path) -> None:
    """Remove everything in consumequeue/: the log and the index are whole."""
    store = golden_store(folder, "crash")
    shutil.rmtree(store / paths.CONSUME_QUEUE)
    (store / paths.CONSUME_QUEUE).mkdir()


def not_dispatched(folder: Path) -> None:
    """Cut the power after the log has taken messages and before the queues have their entries."""
    log = LogBuilder(FILE_SIZE)
    orders(log, 20)
    store = built(folder, log)
    orders(log, 10)
    log.write(store)
    crashed(store)


def empty_last_file(folder: Path) -> None:
    """Let a queue end with a file of zeros, and lose the messages of the log that were to be in it."""
    log = LogBuilder(FILE_SIZE)
    orders(log, 2 * FILE_ENTRIES)
    store = built(folder, log)
    last = _queue(store, "orders")[-1]
    last.with_name(paths.offset_name(2 * FILE_ENTRIES * ENTRY_SIZE)).write_bytes(bytes(FILE_ENTRIES * ENTRY_SIZE))
    crashed(store)


def half_entry(folder: Path) -> None:
    """Let a queue end with 7 bytes of an entry."""
    log = LogBuilder(FILE_SIZE)
    orders(log, 15)
    store = built(folder, log)
    last = _queue(store, "orders")[-1]
    data = bytearray(last.read_bytes())
    data[4 * ENTRY_SIZE + 7 : 5 * ENTRY_SIZE] = bytes(ENTRY_SIZE - 7)
    last.write_bytes(data)
    crashed(store)


def truncated_queue(folder: Path) -> None:
    """Truncate the log below all messages of a topic, and remove the files of its queue, as a change of master does."""
    log = LogBuilder(FILE_SIZE)
    orders(log, 10)
    end = log.end
    orders(log, 5, "fresh")
    store = built(folder, log)
    path = store / paths.COMMIT_LOG / paths.offset_name(0)
    path.write_bytes(path.read_bytes()[:end].ljust(FILE_SIZE, b"\0"))
    for file in _queue(store, "fresh"):
        file.unlink()
    crashed(store)


def log_of_a_queue_deleted(folder: Path) -> None:
    """Delete the log files of all messages of a topic; others keep theirs. The queue's files stay."""
    log = LogBuilder(1 << 12)
    for topic in ("TopicTest1", "TopicTest2", "TopicTest3"):
        for number in range(40):
            log.message(topic, body=b"%d" % number, keys="k")
    store = built(folder, log)
    for path in sorted((store / paths.COMMIT_LOG).iterdir())[:2]:
        path.unlink()


def deleted_topic_is_back(folder: Path) -> None:
    """Delete a topic, then let a broker dispatch its records of the log again: its queue is back."""
    store = golden_store(folder, "basic")
    kept = {topic for topic, _ in golden.facts("basic").queues} - {"audit"}
    (store / paths.CONFIG).mkdir(exist_ok=True)
    table = {name: {"topicName": name} for name in sorted(kept)}
    (store / paths.CONFIG / "topics.json").write_text(json.dumps({"topicConfigTable": table}), "utf-8")


def units_of_a_deleted_topic(folder: Path) -> None:
    """Delete a topic's queues, and leave its ext units where they are."""
    store = golden_store(folder, "ext")
    kept = {topic for topic, _ in golden.facts("ext").queues} - {"orders"}
    (store / paths.CONFIG).mkdir(exist_ok=True)
    table = {name: {"topicName": name} for name in sorted(kept)}
    (store / paths.CONFIG / "topics.json").write_text(json.dumps({"topicConfigTable": table}), "utf-8")
    shutil.rmtree(store / paths.CONSUME_QUEUE / "orders")


def unit_dispatched_twice(folder: Path) -> None:
    """Dispatch one message twice: its second ext unit is between two others, and no entry leads to it."""
    store = golden_store(folder, "ext")
    (units,) = _queue(store, "payments", folder=paths.CONSUME_QUEUE_EXT)
    data = units.read_bytes()
    first = decode_unit(data)
    assert first is not None
    twice = encode_ext_unit(first)
    units.write_bytes((data[: first.size] + twice + data[first.size :])[: len(data)])
    for path in _queue(store, "payments"):
        entries = bytearray(path.read_bytes())
        for at in range(0, len(entries), ENTRY_SIZE):
            entry = decode_entry(entries, at)
            if entry.size and is_address(entry.tags_code) and entry.tags_code != address_of(0):
                code = entry.tags_code + first.size
                ENTRY.struct.pack_into(entries, at, entry.physical_offset, entry.size, code)
        path.write_bytes(entries)


def units_after_truncation(folder: Path) -> None:
    """Truncate the log and its queues, and leave the ext units of the entries that went."""
    store = golden_store(folder, "ext")
    records = golden.records(store)
    cut = records[-60].offset
    for start, data in golden.log_files(store):
        path = store / paths.COMMIT_LOG / paths.offset_name(start)
        path.write_bytes(data[: max(0, cut - start)].ljust(len(data), b"\0"))
        if start >= cut:
            path.unlink()
    for topic, queue_id, start, data in golden.queue_files(store):
        path = store / paths.CONSUME_QUEUE / topic / str(queue_id) / paths.offset_name(start)
        places = range(0, len(data), ENTRY_SIZE)
        kept = sum(decode_entry(data, at).is_valid and decode_entry(data, at).physical_offset < cut for at in places)
        path.write_bytes(data[: kept * ENTRY_SIZE].ljust(len(data), b"\0"))
    crashed(store)


def light_numbers_repeat(folder: Path) -> None:
    """Put two messages at once to one light queue: both get the same number there."""
    log = LogBuilder(FILE_SIZE)
    for number, light in enumerate([0, 1, 1, 2]):
        more = {"INNER_MULTI_DISPATCH": "%LMQ%device", "INNER_MULTI_QUEUE_OFFSET": str(light)}
        log.message("orders", queue_id=number % 2, body=b"%d" % number, more=more)
    stores.with_log(folder, log)


def light_numbers_left_out(folder: Path) -> None:
    """Give a number of a light queue to a message of a topic that has no light queues."""
    log = LogBuilder(FILE_SIZE)
    for number, topic in enumerate(["orders", "%RETRY%group", "orders"]):
        more = {"INNER_MULTI_DISPATCH": "%LMQ%device", "INNER_MULTI_QUEUE_OFFSET": str(number)}
        log.message(topic, body=b"%d" % number, more=more)
    stores.with_log(folder, log)


def same_milliseconds(folder: Path) -> None:
    """Store several messages in each millisecond; those of one millisecond are in two files of their queue."""
    log = LogBuilder(FILE_SIZE, tick_ms=0)
    for number in range(3 * FILE_ENTRIES):
        log.store_timestamp += number % 7 == 0
        log.message("orders", body=b"%d" % number, keys="k")
    built(folder, log)


EXHIBITS: dict[str, Callable[[Path], object]] = {
    "467": entry_left_out,
    "7355": last_file_lost,
    "8032": all_queues_lost,
    "405": not_dispatched,
    "9728": empty_last_file,
    "10211": half_entry,
    "10417": truncated_queue,
    "8753": log_of_a_queue_deleted,
    "1852": deleted_topic_is_back,
    "6343": units_of_a_deleted_topic,
    "10756": unit_dispatched_twice,
    "10755": units_after_truncation,
    "7511": light_numbers_repeat,
    "8693": light_numbers_left_out,
    "4890": same_milliseconds,
}
