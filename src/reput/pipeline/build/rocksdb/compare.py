"""RocksDB: tasks compare a stretch of queues, from the parts of splits, with a database: live in a check, or staged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import OffsetRange, QueueKey
from reput.formats.queue.rocksdb_consume_queue import VALUE, VALUE_SIZE, OffsetValue
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.build.rocksdb.columns import stretch_columns
from reput.pipeline.build.rocksdb.rules import OutOfOrderQueue
from reput.pipeline.build.rocksdb.tables import TableQueues, chunks
from reput.pipeline.split.job import Job
from reput.queue.compare import Compared, compare
from reput.queue.rocksdb_entries import EntryTable
from reput.queue.rocksdb_kind import open_reader
from reput.queue.runs import EntryRun

_NO_ENTRY = np.frombuffer(fmt.blank_value(), dtype=np.uint8)
_NO_MAX = "no max"


class Different(NamedTuple):
    """A queue that differs from its records; entries are counted by queue offset.

    `offsets` are the queue offsets of its records; `ends` says what is wrong with its ends in the database ("":
    nothing). `is_there`: the database has an end or an entry of it.
    """

    key: QueueKey
    offsets: OffsetRange
    entries: Compared
    ends: str
    is_there: bool


class StretchCompared(NamedTuple):
    """The result of a task: the queues that differ, and the outcomes of queues out of order."""

    different: tuple[Different, ...]
    outcomes: tuple[QueueOutcome, ...]


def compare_stretch(job: Job, folder: str, stretch: TableQueues) -> StretchCompared:
    """Compare the queues of a stretch, from the parts of splits, with the database in `folder`."""
    different, outcomes = [], []
    with open_reader(Path(folder)) as reader:
        entries = EntryTable(reader.families)
        for key, runs in stretch_columns(job, stretch.ranges).queues():
            expected = runs()
            if key in stretch.out_of_order:
                reordered = OutOfOrderQueue(job, key, f"{stretch.number}-check")
                outcomes.append(reordered.build(runs))
                expected = reordered.result()
            one = _compare(entries, key, expected, grows=job.judged_to is not None)
            if one.ends or not one.entries.is_equal:
                different.append(one)
    return StretchCompared(tuple(different), tuple(outcomes))


def _compare(entries: EntryTable, key: QueueKey, expected: Iterable[EntryRun], *, grows: bool) -> Different:
    """Compare a queue with its records; if it `grows`, it may continue after the last of them."""
    compared = Compared()
    first = last = OffsetValue(-1, -1)
    for begin, data in chunks(expected):
        wanted, (first_place, last_place) = np.frombuffer(data, dtype=VALUE.dtype), fmt.outer_places(data)
        if first.queue_offset < 0:
            first = OffsetValue(first_place, begin)
        last = OffsetValue(last_place, begin + len(wanted) - 1)
        rows = wanted.view(np.uint8).reshape(-1, VALUE_SIZE)
        compared.add(begin, compare(rows, entries.values(key, begin, begin + len(rows)), _NO_ENTRY), wanted)
    ends = _wrong_ends(entries, key, first, last, grows)
    is_there = ends != _NO_MAX or entries.first_key(key) is not None
    return Different(key, OffsetRange(first.queue_offset, last.queue_offset + 1), compared, ends, is_there)


def _wrong_ends(entries: EntryTable, key: QueueKey, first: OffsetValue, last: OffsetValue, grows: bool) -> str:
    """Describe what is wrong with a queue's `max` and `min`; a `min` that is too low is right, RocketMQ raises it."""
    stored_last, stored_first = entries.offset(key, fmt.MAX), entries.offset(key, fmt.MIN)
    if stored_last is None:
        return _NO_MAX
    if stored_last.queue_offset < last.queue_offset or (
        stored_last.queue_offset == last.queue_offset and stored_last != last
    ):
        return f"max is {stored_last.queue_offset} at log offset {stored_last.physical_offset}"
    is_ahead = stored_last.queue_offset > last.queue_offset and not grows
    if is_ahead and (wrong := _wrong_above(entries, key, last, stored_last)):
        return f"max is {stored_last.queue_offset}, {wrong}"
    if stored_first is not None and stored_first.queue_offset > first.queue_offset:
        return f"min is {stored_first.queue_offset}, the first record's queue offset {first.queue_offset}"
    return ""


def _wrong_above(entries: EntryTable, key: QueueKey, last: OffsetValue, stored: OffsetValue) -> str:
    """Describe what is wrong with a `max` above the last record: only blank entries for lost messages may lead to it.

    A new message gets the number after `max`. RocketMQ sets `max` together with an entry; a queue that begins at a
    number (`RocksDBConsumeQueue.initializeWithOffset`) has no records.
    """
    above = next(entries.messages(key, last.queue_offset + 1), None)
    if above is not None and above[0] <= stored.queue_offset:
        return "above the last record"
    if entries.entry(key, stored.queue_offset) is None:
        return "no entry there; new messages would leave a gap"
    if stored.physical_offset != last.physical_offset:
        return f"at log offset {stored.physical_offset}, the last record's is {last.physical_offset}"
    return ""
