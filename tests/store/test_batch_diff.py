"""diff compares queues of batches of two stores by the queue offsets of their entries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import reput
from reput.formats.log.record import FLAG_INNER_BATCH
from reput.formats.queue.batch_consume_queue import BATCH_ENTRY_SIZE, decode_batch_entry, encode_batch_entry
from support import stores
from support.inner import topics_json
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = replace(
    stores.SMALL, mapped_file_size_commit_log=1 << 20, mapper_file_size_batch_consume_queue=8 * BATCH_ENTRY_SIZE
)


def new_store(folder: Path, count: int) -> Path:
    """A store with this number of batches of ten messages in one queue."""
    log = LogBuilder(1 << 20, tick_ms=1)
    for n in range(count):
        more = {"INNER_NUM": "10", "INNER_BASE": str(10 * n)}
        log.message("batches", queue_offset=10 * n, sys_flag=FLAG_INNER_BATCH, more=more)
    store = stores.with_log(folder, log)
    topics_json(store, {"batches": {"queue.type": "BatchCQ"}})
    reput.rebuild(store, spark=False, config=CONFIG)
    return store


def change(store: Path, number: int, tags_code: int) -> None:
    """Change the tags code of one entry."""
    files = sorted((store / "batchconsumequeue" / "batches" / "0").iterdir())
    path, at = files[number // 8], number % 8 * BATCH_ENTRY_SIZE
    data = bytearray(path.read_bytes())
    entry = decode_batch_entry(data, at)._replace(tags_code=tags_code)
    data[at : at + BATCH_ENTRY_SIZE] = encode_batch_entry(entry)
    path.write_bytes(data)


def test_differences_of_batches(tmp_path: Path) -> None:
    """Equal queues have none; entries that differ one after the other are one difference, by their queue offsets."""
    left, right = new_store(tmp_path / "left", 20), new_store(tmp_path / "right", 20)
    assert list(reput.diff(left, right)) == []
    for number in (7, 8, 12):
        change(right, number, 99)
    found = list(reput.diff(left, right))
    assert [(one.topic, one.queue_id, one.what, one.begin, one.end) for one in found] == [
        ("batches", 0, "entries", 70, 90),
        ("batches", 0, "entries", 120, 130),
    ]
    sides = [(one.left, one.right) for one in found]
    assert all(theirs == ours._replace(tags_code=99) for ours, theirs in sides)


def test_ends_of_batches(tmp_path: Path) -> None:
    """A queue that ends earlier differs in its end alone, and a queue that one side lacks ends at 0 there."""
    left, right = new_store(tmp_path / "left", 20), new_store(tmp_path / "right", 13)
    found = list(reput.diff(left, right))
    assert [(one.what, one.begin, one.end) for one in found] == [("max", 200, 130)]
    none = new_store(tmp_path / "none", 1)
    for path in (none / "batchconsumequeue" / "batches" / "0").iterdir():
        path.unlink()
    assert [(one.what, one.begin, one.end) for one in reput.diff(left, none)] == [("max", 200, 0)]
