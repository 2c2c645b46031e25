"""grow, RocksDB: a range's entries, the ends of its queues and the restart point, written by the database's one owner.

A short range is one batch, made visible at once. A long one becomes tables, in tasks, that are taken in before the
batch with the ends is written. Killed anywhere, the restart point and the frontier are still the old ones, and a repeat
writes the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from reput.files import fs
from reput.files.database import Batch
from reput.formats import rocksdb as fmt
from reput.formats.consume_queue import QueueKey
from reput.formats.rocksdb import VALUE_SIZE, OffsetValue
from reput.pipeline.build.grow_state import GrowDriver, QueueGrowth
from reput.pipeline.build.queue_builder import QueueOutcome
from reput.pipeline.build.rocksdb_columns import stretch_columns
from reput.pipeline.build.rocksdb_rules import CrookedQueue
from reput.pipeline.build.rocksdb_stretches import plan_stretches
from reput.pipeline.build.rocksdb_tables import Built, TableQueues, build_tables, chunks, load_ends, table_paths
from reput.pipeline.split import parts
from reput.pipeline.split.job import Job, SplitResult
from reput.pipeline.split.rocksdb_parts import PartRange
from reput.queue.kinds import QueueKind
from reput.queue.rocksdb_kind import RocksdbKind

ONE_BATCH_ENTRIES = 1 << 18
"""Entries up to which the driver writes a range itself."""


class RocksdbGrower:
    """See `kinds.KindGrower`: writes range after range into a database that it owns until it is closed."""

    def __init__(self, kind: QueueKind, owner: fs.Owner) -> None:
        assert isinstance(kind, RocksdbKind)
        self._database = kind.open_to_write(owner)

    def grow(self, driver: GrowDriver, growth: QueueGrowth) -> list[QueueOutcome]:
        """Take in a range; returns what the queues that do not run straight did."""
        entries = sum(result.queue_entries for result in growth.results)
        if entries <= ONE_BATCH_ENTRIES:
            return self._in_one_batch(driver.job, growth)
        return self._as_tables(driver, growth)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    # --- one batch -----------------------------------------------------------------------------

    def _in_one_batch(self, job: Job, growth: QueueGrowth) -> list[QueueOutcome]:
        batch, outcomes = self._database.batch(), []
        crooked = set(growth.table.crooked())
        with job.writing():
            for key, pieces in stretch_columns(job, _all_of(job, growth.results)).queues():
                before = growth.ends.get(key, 0)
                found, is_new = iter(pieces), before == 0
                if key in crooked:
                    builder = CrookedQueue(job, key, "grow")
                    outcome = builder.build(pieces, before)
                    outcomes.append(outcome)
                    found = builder.result()
                    if outcome.restarts:
                        batch.delete_range(fmt.ENTRY_FAMILY, *fmt.queue_bounds(key))
                        is_new = True
                first = last = None
                for begin, values in chunks(found):
                    count = len(values) // VALUE_SIZE
                    _put_entries(batch, key, begin, values, count)
                    first = first or OffsetValue(int.from_bytes(values[:8]), begin)
                    last = OffsetValue(int.from_bytes(values[-VALUE_SIZE:][:8]), begin + count - 1)
                if first is not None and last is not None:
                    _put_ends(batch, key, first if is_new else None, last)
            self._finish(batch, growth.end)
        return outcomes

    def _finish(self, batch: Batch, end: int) -> None:
        batch.put(fmt.OFFSET_FAMILY, fmt.RESTART_KEY, fmt.RESTART_VALUE.struct.pack(end))
        self._database.write(batch)

    # --- tables --------------------------------------------------------------------------------

    def _as_tables(self, driver: GrowDriver, growth: QueueGrowth) -> list[QueueOutcome]:
        job = driver.job
        stretches = [
            replace_ends(stretch, growth.ends) for stretch in plan_stretches(job, growth.results, growth.table)
        ]
        built = driver.engine.run(partial(_table_task, job), stretches, driver.listener.advance)
        outcomes = [outcome for one in built for outcome in one.outcomes]
        with job.writing():
            begun_again = {outcome.key for outcome in outcomes if outcome.restarts}
            batch = self._database.batch()
            for key in begun_again:
                batch.delete_range(fmt.ENTRY_FAMILY, *fmt.queue_bounds(key))
            self._database.write(batch)
            self._database.ingest(fmt.ENTRY_FAMILY, [path for one in built for path in table_paths(job, one)])
            batch = self._database.batch()
            for one in built:
                ends = load_ends(job, one)
                for row, key in enumerate(ends.keys):
                    is_new = key in begun_again or growth.ends.get(key, 0) == 0
                    first = OffsetValue(int(ends.first_physical[row]), int(ends.first[row]))
                    last = OffsetValue(int(ends.last_physical[row]), int(ends.last[row]))
                    _put_ends(batch, key, first if is_new else None, last)
            self._finish(batch, growth.end)
        return outcomes


def replace_ends(stretch: TableQueues, ends: Mapping[QueueKey, int]) -> TableQueues:
    """The stretch, told where its crooked queues end already."""
    return stretch._replace(ends={key: ends[key] for key in stretch.crooked if ends.get(key, 0)})


def _table_task(job: Job, stretch: TableQueues) -> Built:
    return build_tables(job, stretch)


def _all_of(job: Job, results: Sequence[SplitResult]) -> list[PartRange]:
    ranges = []
    for result in results:
        if result.records:
            left = parts.load_ranges(job, result.number)
            if left.keys:
                ranges.append(PartRange(result.number, 0, len(left.keys), 0))
    return ranges


def _put_entries(batch: Batch, key: QueueKey, first: int, values: bytes, count: int) -> None:
    prefix = fmt.queue_prefix(key)
    offsets = np.arange(first, first + count, dtype=np.int64).astype(">i8").tobytes()
    keys = (prefix + offsets[at : at + 8] for at in range(0, 8 * count, 8))
    batch.put_all(fmt.ENTRY_FAMILY, keys, (values[at : at + VALUE_SIZE] for at in range(0, len(values), VALUE_SIZE)))


def _put_ends(batch: Batch, key: QueueKey, first: OffsetValue | None, last: OffsetValue) -> None:
    batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MAX), fmt.encode_offset_value(last))
    if first is not None:
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MIN), fmt.encode_offset_value(first))
