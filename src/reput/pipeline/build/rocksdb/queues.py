"""Queues in RocksDB: the parts of splits become sorted tables; entries go first, then ends, the restart point last.

A database is complete up to its restart point, and without one up to 0. A job that follows the log writes a short range
as one batch, which is visible at once. Tasks make tables of a long range, and of a rebuild, and the driver ingests
them. Killed anywhere, a job leaves the old restart point and the old frontier, and a repeat writes the same.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from reput.files import fs
from reput.files.database_owner import Batch, DatabaseOwner
from reput.formats.own import files as own
from reput.formats.queue import rocksdb_consume_queue as fmt
from reput.formats.queue.consume_queue import BLANKS_AT_ONCE, LAST_BLANK, PRE_BLANK, QueueKey, QueueRange
from reput.formats.queue.rocksdb_consume_queue import VALUE_SIZE, OffsetValue
from reput.pipeline.build.reorder.queue_builder import QueueOutcome
from reput.pipeline.build.rocksdb.columns import stretch_columns
from reput.pipeline.build.rocksdb.compare import compare_stretch
from reput.pipeline.build.rocksdb.rules import OutOfOrderQueue
from reput.pipeline.build.rocksdb.stretches import all_in_one, plan_stretches
from reput.pipeline.build.rocksdb.tables import (
    Built,
    QueueEnds,
    TableQueues,
    build_tables,
    chunks,
    load_ends,
    table_paths,
)
from reput.pipeline.build.stages.state import Build, KeptNumbers, Lost, NextOffsets, RangeQueues
from reput.pipeline.split.job import Job
from reput.queue.rocksdb_kind import FAMILIES, ROCKSDB, RocksdbKind, remove_topics
from reput.store.disk.layout import StoreLayout

ONE_BATCH_ENTRIES = 1 << 18
"""Largest range, in entries, that the driver of a job that follows the log writes itself."""


class RocksdbBuilder:
    """See `QueueBuilder`. A job that follows the log owns the live database until it is closed."""

    has_places: ClassVar[bool] = False
    has_rows: ClassVar[bool] = True

    def __init__(self, layout: StoreLayout, job: Job) -> None:
        self._live: DatabaseOwner | None = None
        if job.live:
            live = RocksdbKind(layout.queue_database, layout.own(own.ROCKSDB_LOGS))
            self._live = live.open_to_write(job.owner)
        self._batch: Batch | None = None
        self._stretches: list[TableQueues] = []
        self._built: list[Built] = []

    def reads_parts(self, build: Build, queues: RangeQueues) -> bool:  # noqa: ARG002 - a QueueBuilder
        """Return True: tables are made of what decode tasks left."""
        return True

    def place(self, build: Build, queues: RangeQueues) -> list[QueueOutcome]:
        """Make tables of the range, or one batch if it is short and the database is live."""
        self._batch, self._stretches, self._built = None, [], []
        if self._live is not None and sum(one.queue_entries for one in queues.results) <= ONE_BATCH_ENTRIES:
            self._batch = self._live.batch()
            return _fill_batch(self._batch, build.job, queues)
        self._stretches = plan_stretches(build.job, queues.results, queues.table, queues.ends)
        with build.stage("tables"):
            self._built = build.run(build_tables, self._stretches)
        return [outcome for built in self._built for outcome in built.outcomes]

    def keep_numbers(self, build: Build, queues: RangeQueues, lost: Lost) -> KeptNumbers:  # noqa: ARG002 - a QueueBuilder
        """Find none: all queues have rows."""
        return KeptNumbers()

    def finish(self, build: Build, queues: RangeQueues, kept: NextOffsets) -> None:
        """Ingest the tables, and write the ends of all queues and the restart point."""
        restart = queues.end
        if self._live is None and not build.job.of_all_topics:
            restart = min(restart, self._copy_other_topics(build))
        with build.stage("ingest"), self._opened(build.job) as database:
            held = {one.key: one for one in kept.ends if build.job.holds(ROCKSDB, one.key)}
            batch = self._batch or self._ingest(build.job, database, queues, held)
            for one in kept.retained:
                if not build.job.holds(ROCKSDB, one.key):
                    continue
                _put_ends(batch, one.key, OffsetValue(0, one.next), OffsetValue(0, one.next - 1))
            batch.put(fmt.OFFSET_FAMILY, fmt.RESTART_KEY, fmt.RESTART_VALUE.struct.pack(restart))
            database.write(batch)

    @contextlib.contextmanager
    def _opened(self, job: Job) -> Iterator[DatabaseOwner]:
        """The live database, while late tasks are kept out, or the staged one."""
        if self._live is not None:
            with job.writing():
                yield self._live
            return
        with DatabaseOwner(Path(job.database_folder), FAMILIES, Path(job.parts_folder) / "log", job.owner) as database:
            if not job.of_all_topics:
                remove_topics(database, job.wants)
            yield database

    def _ingest(
        self, job: Job, database: DatabaseOwner, queues: RangeQueues, kept: Mapping[QueueKey, QueueRange]
    ) -> Batch:
        """Ingest the tables in place of queues that begin again; returns a batch with ends that are still to write."""
        begun_again = {one.key for built in self._built for one in built.outcomes if one.restarts}
        batch = database.batch()
        for key in begun_again:
            batch.delete_range(fmt.ENTRY_FAMILY, *fmt.queue_bounds(key))
        database.write(batch)
        database.ingest(fmt.ENTRY_FAMILY, [path for one in self._built for path in table_paths(job, one)])
        continued = queues.ends.keys() - begun_again
        for longer in kept.values():
            _blank_end(database, longer)
        batch = database.batch()
        for built in self._built:
            _put_ends_of(batch, load_ends(job, built), continued, kept)
            if self._live is None:
                # Readers of a live database see all ends at once. A staged one has no reader, and may be large.
                database.write(batch)
                batch = database.batch()
        return batch

    def _copy_other_topics(self, build: Build) -> int:
        """Copy the live database into staging; returns the log offset up to which it is complete."""
        live = RocksdbKind(build.layout.queue_database, build.layout.own(own.ROCKSDB_LOGS))
        folder = Path(build.job.database_folder)
        with build.stage("copy"):
            live.copy_to(folder, build.job.owner)
            # The folder is swapped in whole, and other kinds may have queues in it.
            for topic in fs.list_dir(live.folder):
                if not topic.is_file and not build.job.wants(os.fsencode(topic.name)):
                    fs.link_tree(live.folder / topic.name, folder / topic.name, build.job.owner)
        return live.complete_to() or 0

    def verify(self, build: Build, queues: RangeQueues) -> list[str]:  # noqa: ARG002 - a QueueBuilder
        """Compare the staged database with what the splits left."""
        task = partial(compare_stretch, build.job, build.job.database_folder)
        compared = build.engine.run(task, self._stretches, build.listener.advance)
        return [
            f"{one.key}: {one.entries.missing} entries missing, {one.entries.wrong} wrong, {one.ends or 'ends right'}"
            for found in compared
            for one in found.different
        ]

    def parts(self, build: Build) -> list[str]:
        """Return the folder, which may hold the database's files beside queues of other kinds."""
        fs.make_dirs(build.job.database_folder, build.job.owner)
        return [build.job.database_part]

    def close(self) -> None:
        """Close the live database."""
        if self._live is not None:
            self._live.close()


def _fill_batch(batch: Batch, job: Job, queues: RangeQueues) -> list[QueueOutcome]:
    """Put a short range into a batch: the entries and the ends of its queues."""
    outcomes: list[QueueOutcome] = []
    out_of_order = set(queues.table.out_of_order())
    with job.writing():
        for key, runs in stretch_columns(job, all_in_one(job, queues.results)).queues():
            before = queues.ends.get(key, 0)
            found, is_new = runs(), before == 0
            if key in out_of_order:
                builder = OutOfOrderQueue(job, key, "grow")
                outcome = builder.build(runs, before)
                outcomes.append(outcome)
                found = builder.result()
                if outcome.restarts:
                    batch.delete_range(fmt.ENTRY_FAMILY, *fmt.queue_bounds(key))
                    is_new = True
            first = last = None
            for begin, values in chunks(found):
                count = len(values) // VALUE_SIZE
                rows = (values[at : at + VALUE_SIZE] for at in range(0, len(values), VALUE_SIZE))
                batch.put_all(fmt.ENTRY_FAMILY, fmt.entry_keys(key, begin, begin + count), rows)
                first_place, last_place = fmt.outer_places(values)
                first = first or OffsetValue(first_place, begin)
                last = OffsetValue(last_place, begin + count - 1)
            if last is not None:
                _put_ends(batch, key, first if is_new else None, last)
    return outcomes


def _put_ends_of(
    batch: Batch, ends: QueueEnds, continued: Collection[QueueKey], kept: Mapping[QueueKey, QueueRange]
) -> None:
    """Put the ends of a stretch's queues.

    A queue in `continued` has a first entry already. A queue in `kept` ends after its blank entries.
    """
    columns = (ends.first, ends.first_physical, ends.last, ends.last_physical)
    rows = zip(ends.keys, *(column.tolist() for column in columns), strict=True)
    for key, first, first_physical, last, last_physical in rows:
        begin = None if key in continued else OffsetValue(first_physical, first)
        end = kept[key].end - 1 if key in kept else last
        _put_ends(batch, key, begin, OffsetValue(last_physical, end))


def _put_ends(batch: Batch, key: QueueKey, first: OffsetValue | None, last: OffsetValue) -> None:
    batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MAX), fmt.encode_offset_value(last))
    if first is not None:
        batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MIN), fmt.encode_offset_value(first))


def _blank_end(database: DatabaseOwner, lost: QueueRange) -> None:
    """Write blank entries for messages that are lost."""
    for begin in range(lost.first, lost.end, BLANKS_AT_ONCE):
        batch = database.batch()
        for offset in range(begin, min(begin + BLANKS_AT_ONCE, lost.end)):
            blank = LAST_BLANK if offset == lost.end - 1 else PRE_BLANK
            batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(lost.key, offset), fmt.blank_value(blank=blank))
        database.write(batch)
