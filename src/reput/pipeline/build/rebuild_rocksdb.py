"""rebuild, RocksDB: tasks make tables of what the splits left; the driver takes them in, then the ends, then the end.

The restart point is written last: a database without it is complete up to 0.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from reput.files import fs
from reput.files.database import Batch, DatabaseOwner
from reput.formats import own, paths
from reput.formats import rocksdb as fmt
from reput.formats.consume_queue import LAST_BLANK, PRE_BLANK, QueueKey
from reput.formats.rocksdb import OffsetValue
from reput.pipeline.build.queue_builder import QueueOutcome
from reput.pipeline.build.rebuild_state import EndToKeep, RebuildRun
from reput.pipeline.build.rocksdb_compare import compare_stretch
from reput.pipeline.build.rocksdb_stretches import plan_stretches
from reput.pipeline.build.rocksdb_tables import Built, TableQueues, build_tables, load_ends, table_paths
from reput.pipeline.split.merge import SplitQueues
from reput.pipeline.split.stitch import Stitched
from reput.queue.rocksdb_kind import FAMILIES, RocksdbKind, remove_topics
from reput.store.disk.retained import Retained

_BLANKS_AT_ONCE = 50_000


class RocksdbSide:
    """See `kinds.QueueSide`."""

    def __init__(self) -> None:
        self._stretches: list[TableQueues] = []
        self._built: list[Built] = []

    reads_parts: ClassVar[bool] = True

    def build(self, run: RebuildRun, stitched: Stitched, table: SplitQueues) -> list[QueueOutcome]:
        """Make tables of all queues."""
        self._stretches = plan_stretches(run.job, stitched.results, table)
        with run.stage("tables"):
            self._built = run.engine.run(partial(build_tables, run.job), self._stretches, run.listener.advance)
        return [outcome for built in self._built for outcome in built.outcomes]

    def finish(
        self,
        run: RebuildRun,
        table: SplitQueues,  # noqa: ARG002 - as QueueSide has it
        retained: Sequence[Retained],
        kept: Sequence[EndToKeep],
        end: int,
    ) -> None:
        """Take the tables in, and write the ends of all queues."""
        job = run.job
        folder, logs = Path(job.queue_folder), Path(job.parts_folder) / "log"
        restart = end
        if not job.of_all_topics:
            restart = self._begin_with_the_others(run)
        with run.stage("ingest"), DatabaseOwner(folder, FAMILIES, logs, job.owner) as database:
            if not job.of_all_topics:
                remove_topics(database, job.wants)
            database.ingest(fmt.ENTRY_FAMILY, [path for one in self._built for path in table_paths(job, one)])
            later = {one.key: one for one in kept}
            for built in self._built:
                _write_ends(database, run, built, later)
            batch = database.batch()
            for one in retained:
                _put_ends(batch, one.key, OffsetValue(0, one.next), OffsetValue(0, one.next - 1))
            batch.put(fmt.OFFSET_FAMILY, fmt.RESTART_KEY, fmt.RESTART_VALUE.struct.pack(min(restart, end)))
            database.write(batch)

    def _begin_with_the_others(self, run: RebuildRun) -> int:
        """Let the staged folder have what the live one has of all topics; returns how far those are complete."""
        live = RocksdbKind(run.layout.consume_queue, run.layout.own(own.ROCKSDB_LOGS))
        folder = Path(run.job.queue_folder)
        with run.stage("copy"):
            live.copy_to(folder, run.job.owner)
            # The folder goes live whole, and other kinds may have queues in it too.
            for topic in fs.list_dir(live.folder):
                if topic.is_dir and not run.job.wants(os.fsencode(topic.name)):
                    fs.link_tree(live.folder / topic.name, folder / topic.name, run.job.owner)
        return live.complete_to() or 0

    def parts(self, run: RebuildRun) -> list[str]:
        """The folder, in which the database's files lie beside other kinds' queues."""
        fs.make_dirs(run.job.queue_folder, run.job.owner)
        return [paths.CONSUME_QUEUE]

    def verify(self, run: RebuildRun, table: SplitQueues) -> list[str]:  # noqa: ARG002 - as QueueSide has it
        """Hold the staged database against what the splits left, read back from its tables."""
        task = partial(compare_stretch, run.job, run.job.queue_folder)
        compared = run.engine.run(task, self._stretches, run.listener.advance)
        return [
            f"{one.key}: {one.entries.missing} entries missing, {one.entries.wrong} wrong, {one.ends or 'ends right'}"
            for found in compared
            for one in found.different
        ]


def _write_ends(database: DatabaseOwner, run: RebuildRun, built: Built, kept: Mapping[QueueKey, EndToKeep]) -> None:
    """Write the ends of a stretch's queues; those of `kept` go on behind blank entries."""
    ends = load_ends(run.job, built)
    batch = database.batch()
    rows = zip(
        ends.keys,
        ends.first.tolist(),
        ends.first_physical.tolist(),
        ends.last.tolist(),
        ends.last_physical.tolist(),
        strict=True,
    )
    for key, first, first_physical, last, last_physical in rows:
        longer = kept.get(key)
        if longer is not None:
            _blank_end(database, longer)
            last = longer.end - 1  # noqa: PLW2901 - the queue is that much longer
        _put_ends(batch, key, OffsetValue(first_physical, first), OffsetValue(last_physical, last))
    database.write(batch)


def _put_ends(batch: Batch, key: QueueKey, first: OffsetValue, last: OffsetValue) -> None:
    batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MAX), fmt.encode_offset_value(last))
    batch.put(fmt.OFFSET_FAMILY, fmt.offset_key(key, fmt.MIN), fmt.encode_offset_value(first))


def _blank_end(database: DatabaseOwner, lost: EndToKeep) -> None:
    """Blank entries for messages that are lost."""
    for begin in range(lost.begin, lost.end, _BLANKS_AT_ONCE):
        batch = database.batch()
        for offset in range(begin, min(begin + _BLANKS_AT_ONCE, lost.end)):
            blank = LAST_BLANK if offset == lost.end - 1 else PRE_BLANK
            batch.put(fmt.ENTRY_FAMILY, fmt.entry_key(lost.key, offset), blank + bytes(8))
        database.write(batch)
